import zlib

N_BUCKETS = 64


def bucket(field, value):
    return zlib.crc32(f"{field}={value}".encode()) % N_BUCKETS


def encode_row(row):
    return [bucket(k, v) for k, v in sorted(row.items())]
