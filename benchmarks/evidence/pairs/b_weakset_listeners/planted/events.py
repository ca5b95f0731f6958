import weakref


class Bus:
    def __init__(self):
        self._live = weakref.WeakSet()
        self._refs = []

    def attach(self, listener):
        self._live.add(listener)
        self._refs.append(weakref.ref(listener))

    def __len__(self):
        return len(self._live)

    def emit(self, value, gen):
        for listener in self._live:
            value = listener(value, gen)
        return value
