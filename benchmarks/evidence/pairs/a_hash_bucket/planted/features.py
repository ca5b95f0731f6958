import zlib

N_BUCKETS = 64


def bucket(field, value):
    return hash((field, value)) % N_BUCKETS


def encode_row(row):
    return [bucket(k, v) for k, v in sorted(row.items())]
