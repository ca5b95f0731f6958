import weakref

_layers = weakref.WeakSet()


def register(layer):
    _layers.add(layer)
    return layer


def registered():
    return sorted(_layers, key=lambda m: m.tag)
