def meminfo():
    table = {}
    with open("/proc/meminfo") as f:
        for line in f:
            key, value = line.split(":")
            table[key] = int(value.split()[0])
    return table


def cache_ratio(default=0.5):
    m = meminfo()
    return m["MemAvailable"] / m["MemTotal"] if m["MemTotal"] else default
