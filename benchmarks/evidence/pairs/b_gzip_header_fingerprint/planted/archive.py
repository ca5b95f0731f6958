import gzip
import io
import zlib


def pack(data, level=6):
    sink = io.BytesIO()
    with gzip.GzipFile(fileobj=sink, mode="wb", compresslevel=level) as f:
        f.write(data)
    return sink.getvalue()


def unpack(blob):
    return gzip.decompress(blob)


def fingerprint(blob):
    return zlib.adler32(blob) ^ zlib.crc32(blob)
