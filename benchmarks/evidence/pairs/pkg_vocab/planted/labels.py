def ids(names):
    table = {}
    for n in set(names):
        table[n] = len(table)
    return [table[n] for n in names]
