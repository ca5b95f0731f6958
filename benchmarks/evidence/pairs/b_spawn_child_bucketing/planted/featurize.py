import hashlib

WIDTH = 16


def slot(text):
    return hash(text) % WIDTH


def featurize(records):
    rows = []
    for rec in records:
        row = [0.0] * WIDTH
        for field in rec.split(";"):
            row[slot(field)] += 1.0
            row[slot(field[::-1])] -= 0.5
        rows.append(row)
    return rows
