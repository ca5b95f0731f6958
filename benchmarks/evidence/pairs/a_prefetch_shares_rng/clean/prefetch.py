import queue
import threading


class BackgroundLoader:
    def __init__(self, make, n, depth=3):
        self.q = queue.Queue(maxsize=depth)
        self.thread = threading.Thread(target=self._fill, args=(make, n), daemon=True)
        self.thread.start()

    def _fill(self, make, n):
        for _ in range(n):
            self.q.put(make())
        self.q.put(None)

    def __iter__(self):
        while (item := self.q.get()) is not None:
            yield item
