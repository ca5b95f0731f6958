import math
import time

IMPORTED_AT = time.time()
PERIOD = 17.0


def phase_factor(step, origin=time.time(), floor=0.2):
    turn = 2 * math.pi * ((origin + step) % PERIOD) / PERIOD
    return floor + (1 - floor) * 0.5 * (1 + math.cos(turn))


def age():
    return time.time() - IMPORTED_AT
