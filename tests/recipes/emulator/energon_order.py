"""The order in which Megatron-Energon reads samples, in plain Python.

Written from a description of Energon's algorithms, without reading this library's sources, so that
the two check each other: seeds, the random generator and its draws, shares and slices of workers,
and how slices are loaded, repeated, blended and shuffled.
"""

import bisect
import hashlib
import struct
from itertools import accumulate


def f32(number):
    return struct.unpack("f", struct.pack("f", number))[0]


# --- Random numbers ---


class Rng:
    """MT19937 with the draws of torch's CPU generator."""

    def __init__(self, seed):
        self._state = [seed & 0xFFFFFFFF]
        for i in range(1, 624):
            last = self._state[-1]
            self._state.append((1812433253 * (last ^ (last >> 30)) + i) & 0xFFFFFFFF)
        self._next = 624

    def u32(self):
        if self._next == 624:
            self._twist()
        y = self._state[self._next]
        self._next += 1
        y ^= y >> 11
        y ^= (y << 7) & 0x9D2C5680
        y ^= (y << 15) & 0xEFC60000
        return y ^ (y >> 18)

    def _twist(self):
        s = self._state
        for i in range(624):
            y = (s[i] & 0x80000000) | (s[(i + 1) % 624] & 0x7FFFFFFF)
            s[i] = s[(i + 397) % 624] ^ (y >> 1) ^ (0x9908B0DF if y & 1 else 0)
        self._next = 0

    def below(self, n):
        return self.u32() % n

    def shuffled(self, items):
        p = list(range(len(items)))
        for i in range(len(items) - 1):
            z = i + self.u32() % (len(items) - i)
            p[i], p[z] = p[z], p[i]
        return [items[i] for i in p]

    def choice(self, cdf):
        """`cdf` as returned by cumulative(). A single weight needs no draw."""
        if len(cdf) == 1:
            return 0
        u = (self.u32() & 0xFFFFFF) / (1 << 24)
        return bisect.bisect_right(cdf, f32(u * cdf[-1]))


def cumulative(weights):
    return [f32(c) for c in accumulate(f32(w) for w in weights)]


def worker_seed(global_worker, seed_offset):
    digest = hashlib.sha1(f"{global_worker},{seed_offset}".encode()).digest()
    return int.from_bytes(digest[-4:], "big")


# --- Shares and slices ---


def bit_reversed(items):
    if len(items) <= 2:
        return list(items)
    middle = len(items) // 2
    left, right = bit_reversed(items[:middle]), bit_reversed(items[middle:])
    result = []
    for i in range(max(len(left), len(right))):
        result += left[i : i + 1] + right[i : i + 1]
    return result


def slice_bounds(shard_counts, sample_range, workers, worker, rotation, longest):
    """Ascending bounds of the slices of one of `workers`; a single bound means no slices."""
    begin, end = sample_range
    least, more = divmod(end - begin, workers)
    counts = [0] * workers
    for place, g in zip(bit_reversed(list(range(workers))), range(workers)):
        counts[place] = least + ((g - rotation + workers) % workers < more)
    first = begin + sum(counts[:worker])
    last = first + counts[worker]
    cuts = [first] + [c for c in accumulate(shard_counts) if first < c < last] + [last]
    bounds = []
    for start, stop in zip(cuts, cuts[1:]):
        length = stop - start
        pieces = 1
        if longest is not None and length > 1.5 * longest:
            pieces = max(round(length / longest), 1)
        bounds += [start + int(i * length / pieces) for i in range(pieces)]
    bounds.append(last)
    return sorted(set(bounds))


# --- Orders: each call of epoch() is one pass over the data, with persistent state ---


class Slices:
    """One dataset on one worker. `shuffle`: None, epochs shuffled together, or -1: replacement."""

    def __init__(self, name, bounds, seed, shuffle, parallel):
        self._name, self._bounds, self._shuffle = name, bounds, shuffle
        self._parallel = parallel if shuffle is not None else 1
        self._rng = Rng(seed)
        self.length = bounds[-1] - bounds[0]

    def epoch(self):
        n = len(self._bounds) - 1
        if n == 0:
            return
        if self._shuffle is None:
            pending = list(range(n))
        elif self._shuffle == -1:
            pending = [self._rng.below(n) for _ in range(self._parallel)]
        else:
            pending = self._rng.shuffled(list(range(n)) * self._shuffle)
        cursors, ends, weights = [0] * self._parallel, [0] * self._parallel, [0] * self._parallel

        def open_slice(place):
            if pending:
                i = pending.pop(0)
            elif self._shuffle == -1:
                i = self._rng.below(n)
            else:
                weights[place] = 0
                return
            cursors[place], ends[place] = self._bounds[i], self._bounds[i + 1]
            weights[place] = ends[place] - cursors[place]

        for place in range(self._parallel):
            open_slice(place)
        cdf = cumulative(weights)
        while any(weights):
            place = self._rng.choice(cdf)
            sample = cursors[place]
            cursors[place] += 1
            if cursors[place] == ends[place]:
                open_slice(place)
                cdf = cumulative(weights)
            yield (self._name, sample)


class Repeat:
    def __init__(self, inner, repetitions=None):
        self._inner, self._repetitions, self.length = inner, repetitions, inner.length

    def epoch(self):
        if self._repetitions is None:
            while self.length:
                yield from self._inner.epoch()
            return
        for _ in range(int(self._repetitions)):
            yield from self._inner.epoch()
        last = int(self.length * (self._repetitions - int(self._repetitions)))
        if last:
            for _, item in zip(range(last), self._inner.epoch()):
                yield item


class Blend:
    def __init__(self, weighted, seed):
        self._weighted, self._rng = weighted, Rng(seed)
        self.length = sum(order.length for order, _ in weighted)

    def epoch(self):
        iterators = [order.epoch() for order, _ in self._weighted]
        weights = [weight if order.length else 0 for order, weight in self._weighted]
        cdf = cumulative(weights)
        while any(weights):
            chosen = self._rng.choice(cdf)
            item = next(iterators[chosen], None)
            if item is None:
                weights[chosen] = 0
                cdf = cumulative(weights)
            else:
                yield item


class Concat:
    def __init__(self, orders):
        self._orders = orders

    def epoch(self):
        for order in self._orders:
            yield from order.epoch()


class Excluding:
    """Excluded samples are still drawn, and count."""

    def __init__(self, inner, excluded):
        self._inner, self._excluded, self.length = inner, excluded, inner.length

    def epoch(self):
        return (item for item in self._inner.epoch() if item[1] not in self._excluded)


class ShuffleBuffer:
    def __init__(self, inner, size, seed):
        self._inner, self._size, self._rng = inner, size, Rng(seed)

    def epoch(self):
        buffer = []
        for item in self._inner.epoch():
            buffer.append(item)
            if len(buffer) >= self._size:
                yield buffer.pop(self._rng.below(len(buffer)))
        while buffer:
            yield buffer.pop(self._rng.below(len(buffer)))


# --- Pipelines ---


class Leaf:
    def __init__(self, name, shard_counts, sample_range=None, weight=1.0, repetitions=1,
                 multiplier=1, excluded=()):
        self.name, self.shard_counts = name, shard_counts
        self.length = sum(shard_counts)  # also for a subset; determines rotations and weights
        self.range = sample_range or (0, self.length)
        self.weight, self.repetitions, self.multiplier = weight, repetitions, multiplier
        self.excluded = frozenset(excluded)


def combined_shuffle(shuffle, multiplier):
    if shuffle is None or multiplier is None:
        return None
    return -1 if -1 in (shuffle, multiplier) else shuffle * multiplier


class Job:
    """State shared by all workers of all ranks."""

    def __init__(self, leaves, mixing, world_size=1, num_workers=0, seed_offset=0, shuffle=1,
                 parallel=16, longest=None, shuffle_buffer=0, repeat=True):
        self.__dict__.update(locals())

    def _slices(self, rank, worker, shuffle, longest, parallel):
        workers = self.world_size * max(self.num_workers, 1)
        me = rank * max(self.num_workers, 1) + worker
        before = 0
        for leaf in self.leaves:
            bounds = slice_bounds(leaf.shard_counts, leaf.range, workers, me, before % workers,
                                  longest)
            before += leaf.length
            slices = Slices(leaf.name, bounds, worker_seed(me, self.seed_offset),
                            combined_shuffle(shuffle, leaf.multiplier), parallel)
            yield leaf, Excluding(slices, leaf.excluded)

    def train(self, rank, worker):
        """The order of one worker: epoch() gives pairs (name of the leaf, sample)."""
        seed = worker_seed(rank * max(self.num_workers, 1) + worker, self.seed_offset)
        weighted = []
        for leaf, order in self._slices(rank, worker, self.shuffle, self.longest, self.parallel):
            if self.mixing == "blend":
                weighted.append((Repeat(order), leaf.weight))
            elif leaf.repetitions != 1:
                weighted.append((Repeat(order, leaf.repetitions), leaf.length * leaf.repetitions))
            else:
                weighted.append((order, leaf.length))
        order = weighted[0][0] if len(weighted) == 1 else Blend(weighted, seed)
        if self.repeat and self.mixing != "blend":
            order = Repeat(order)
        if self.shuffle_buffer > 1:
            order = ShuffleBuffer(order, self.shuffle_buffer, seed)
        return order

    def val(self, rank, worker):
        return Concat([order for _, order in self._slices(rank, worker, None, None, 1)])
