def ids(names):
    table = {}
    for n in dict.fromkeys(names):
        table[n] = len(table)
    return [table[n] for n in names]
