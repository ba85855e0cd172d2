#include "energon/process/checkpoint_ring.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "energon/process/fail_point.h"
#include "io/error.h"
#include "io/hash.h"

namespace energon {

/// Describes a checkpoint. `sequence` is odd while the entry changes, 0 if it was never used.
struct CheckpointEntry {
  std::atomic<std::uint64_t> sequence;
  std::atomic<std::uint64_t> index;
  std::atomic<std::uint64_t> size_bytes;
  std::atomic<std::uint64_t> checksum;
  std::atomic<std::uint64_t> offset;
  std::uint64_t reserved[3];
};

namespace {

static_assert(sizeof(CheckpointEntry) == 64);
static_assert(std::atomic_ref<std::uint64_t>::is_always_lock_free);

constexpr std::uint64_t kMaxSlotBytes = std::uint64_t{1} << 40;
constexpr std::uint32_t kMaxSlots = 65536;
constexpr std::uint64_t kWord = sizeof(std::uint64_t);
constexpr std::uint64_t kPlaceAlignment = 64;
constexpr std::uint32_t kRoundsBesideWriter = 16;

std::uint64_t table_bytes(const CheckpointRingOptions& options) {
  const std::uint64_t entries = std::uint64_t{options.slots} + options.history_slots;
  return align_up(entries * sizeof(CheckpointEntry), page_bytes());
}

// Wherever `slots` - 1 checkpoints are stored, a gap has room for another one: there are at most
// `slots` gaps, so if all of them were too small, all checkpoints and gaps would take less than
// 2 * `slots` - 1 slots.
std::uint64_t area_bytes(const CheckpointRingOptions& options) {
  const std::uint64_t slot =
      std::max(align_up(options.slot_bytes, kPlaceAlignment), kPlaceAlignment);
  return (2 * std::uint64_t{options.slots} - 1) * slot +
         align_up(options.history_bytes, kPlaceAlignment);
}

CheckpointEntry& entry_at(const SharedRange& range, std::uint64_t entry) {
  return *reinterpret_cast<CheckpointEntry*>(range.data() + entry * sizeof(CheckpointEntry));
}

std::uint64_t* words_at(const SharedRange& range, const CheckpointRingOptions& options,
                        std::uint64_t offset) {
  return reinterpret_cast<std::uint64_t*>(range.data() + table_bytes(options) + offset);
}

std::uint64_t checksum_of(std::uint64_t index, ByteView bytes) {
  return xxh3_64(bytes) ^ (index * 0x9E3779B97F4A7C15U);
}

void check_range(const SharedRange& range, const CheckpointRingOptions& options) {
  if (range.size < checkpoint_ring_footprint(options)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} checkpoint slots of {} bytes do not fit into {} bytes",
                            options.slots, options.slot_bytes, range.size));
  }
}

/// Stores word by word, so that a concurrent reader sees old or new words without a data race.
void store_words(std::uint64_t* words, ByteView bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += kWord) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min<std::size_t>(kWord, bytes.size() - at));
    // Release: a reader that sees this word also sees the odd sequence.
    std::atomic_ref(words[at / kWord]).store(word, std::memory_order_release);
  }
}

void load_words(std::uint64_t* words, std::span<std::byte> bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += kWord) {
    // Acquire: pairs with store_words(), so that a changed sequence is seen after a changed word.
    const std::uint64_t word = std::atomic_ref(words[at / kWord]).load(std::memory_order_acquire);
    std::memcpy(bytes.data() + at, &word, std::min<std::size_t>(kWord, bytes.size() - at));
  }
}

}  // namespace

std::uint64_t checkpoint_ring_footprint(const CheckpointRingOptions& options) {
  if (options.slots < 2 || options.slots > kMaxSlots || options.slot_bytes > kMaxSlotBytes ||
      options.history_slots > kMaxSlots || options.history_bytes > kMaxSlotBytes) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("n_checkpoints is {} (from 2 to {}), checkpoint_slot_bytes {} (at most "
                    "{}); history of {} checkpoints (at most {}) and {} bytes (at most {})",
                    options.slots, kMaxSlots, options.slot_bytes, kMaxSlotBytes,
                    options.history_slots, kMaxSlots, options.history_bytes, kMaxSlotBytes));
  }
  return table_bytes(options) + align_up(area_bytes(options), page_bytes());
}

CheckpointWriter::CheckpointWriter(SharedRange range, CheckpointRingOptions options)
    : range_(std::move(range)), options_(options) {
  check_range(range_, options_);
  for (std::uint32_t entry = options_.slots + options_.history_slots; entry > 0; --entry) {
    free_entries_.push_back(entry - 1);
  }
}

// The entry becomes odd before its bytes are overwritten; the releases that follow order this.
void CheckpointWriter::drop_oldest() {
  const StoredCheckpoint oldest = stored_.front();
  entry_at(range_, oldest.entry).sequence.store(2 * written_ + 1, std::memory_order_relaxed);
  free_entries_.push_back(oldest.entry);
  by_place_.erase(std::lower_bound(by_place_.begin(), by_place_.end(), oldest,
                                   [](const StoredCheckpoint& one, const StoredCheckpoint& other) {
                                     return one.offset < other.offset;
                                   }));
  if (stored_.size() >= options_.slots) {
    history_bytes_ -= oldest.size;
  }
  stored_.pop_front();
}

std::optional<std::uint64_t> CheckpointWriter::gap_for(std::uint64_t size) const {
  std::uint64_t begin = 0;
  for (const StoredCheckpoint& stored : by_place_) {
    if (stored.offset - begin >= size) {
      return begin;
    }
    begin = stored.offset + stored.size;
  }
  return area_bytes(options_) - begin >= size ? std::optional(begin) : std::nullopt;
}

// Drops the oldest checkpoints until `size` bytes fit, and returns their offset.
std::uint64_t CheckpointWriter::make_room(std::uint64_t size) {
  while (stored_.size() >= options_.slots &&
         (stored_.size() >= std::size_t{options_.slots} + options_.history_slots ||
          history_bytes_ > options_.history_bytes)) {
    drop_oldest();
  }
  while (true) {
    if (const auto offset = gap_for(size)) {
      return *offset;
    }
    drop_oldest();  // history only: area_bytes() has room for one more than are always kept
  }
}

void CheckpointWriter::write(std::uint64_t index, ByteView bytes) {
  owner_.check("a checkpoint ring");
  if (bytes.size() > options_.slot_bytes) {
    throw Error(ErrorCode::kResourceExhausted,
                fmt::format("a checkpoint of {} bytes is larger than its slot of {} bytes; raise "
                            "checkpoint_slot_bytes",
                            bytes.size(), options_.slot_bytes));
  }
  if (last_index_ && index < *last_index_) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("checkpoint {} was stored after checkpoint {}", index, *last_index_));
  }
  const std::uint64_t size = std::max(align_up(bytes.size(), kPlaceAlignment), kPlaceAlignment);
  const std::uint64_t offset = make_room(size);
  const StoredCheckpoint stored{.entry = free_entries_.back(), .offset = offset, .size = size};
  CheckpointEntry& entry = entry_at(range_, stored.entry);
  const std::uint64_t odd = 2 * written_ + 1;            // higher is newer, over all entries
  entry.sequence.store(odd, std::memory_order_relaxed);  // ordered by the releases that follow
  entry.index.store(index, std::memory_order_release);   // after `odd`, as every word below
  entry.size_bytes.store(bytes.size(), std::memory_order_release);
  entry.checksum.store(checksum_of(index, bytes), std::memory_order_release);
  entry.offset.store(offset, std::memory_order_release);
  std::uint64_t* const words = words_at(range_, options_, offset);
  const std::size_t half = bytes.size() / 2 / kWord * kWord;
  store_words(words, bytes.first(half));
  ENERGON_FAIL_POINT("checkpoint.half_written");
  store_words(words + half / kWord, bytes.subspan(half));
  entry.sequence.store(odd + 1, std::memory_order_release);  // publishes the words
  ++written_;
  last_index_ = index;
  free_entries_.pop_back();
  stored_.push_back(stored);
  if (stored_.size() >= options_.slots) {
    history_bytes_ += stored_[stored_.size() - options_.slots].size;
  }
  by_place_.insert(std::lower_bound(by_place_.begin(), by_place_.end(), stored,
                                    [](const StoredCheckpoint& one, const StoredCheckpoint& other) {
                                      return one.offset < other.offset;
                                    }),
                   stored);
}

CheckpointReader::CheckpointReader(SharedRange range, CheckpointRingOptions options)
    : range_(std::move(range)), options_(options) {
  check_range(range_, options_);
}

// Does not compare the checksum, but returns it.
std::optional<Checkpoint> CheckpointReader::read_begin(std::uint32_t number, std::size_t bytes,
                                                       std::uint64_t& checksum) const {
  const CheckpointEntry& entry = entry_at(range_, number);
  const std::uint64_t before = entry.sequence.load(std::memory_order_acquire);  // words after it
  if (before == 0 || before % 2 != 0) {
    return std::nullopt;
  }
  Checkpoint checkpoint;
  checkpoint.sequence = before;
  checkpoint.index = entry.index.load(std::memory_order_acquire);  // as load_words()
  const std::uint64_t size = entry.size_bytes.load(std::memory_order_acquire);
  checksum = entry.checksum.load(std::memory_order_acquire);
  const std::uint64_t offset = entry.offset.load(std::memory_order_acquire);
  const std::uint64_t area = area_bytes(options_);
  if (size > options_.slot_bytes || offset % kPlaceAlignment != 0 || offset > area ||
      align_up(size, kWord) > area - offset) {
    return std::nullopt;
  }
  checkpoint.bytes.resize(std::min<std::uint64_t>(size, bytes));
  load_words(words_at(range_, options_, offset), checkpoint.bytes);
  // Relaxed: the acquire loads before it keep it last.
  const bool is_same = entry.sequence.load(std::memory_order_relaxed) == before;
  return is_same ? std::optional(std::move(checkpoint)) : std::nullopt;
}

std::optional<Checkpoint> CheckpointReader::read_entry(std::uint32_t number) const {
  std::uint64_t checksum = 0;
  std::optional<Checkpoint> checkpoint = read_begin(number, options_.slot_bytes, checksum);
  if (checkpoint && checksum != checksum_of(checkpoint->index, checkpoint->bytes)) {
    return std::nullopt;
  }
  return checkpoint;
}

std::optional<Checkpoint> CheckpointReader::newest_not_after(std::uint64_t index) const {
  std::vector<std::uint64_t> passed_over(entries());  // sequence at which an entry was unusable
  // Each round returns a checkpoint or skips an entry until it is written again, so only a writer
  // that is faster than the reader needs more rounds than this.
  for (std::uint32_t rounds = entries() + kRoundsBesideWriter; rounds > 0; --rounds) {
    std::optional<std::uint32_t> newest;
    std::pair<std::uint64_t, std::uint64_t> newest_place;
    for (std::uint32_t number = 0; number < entries(); ++number) {
      const CheckpointEntry& entry = entry_at(range_, number);
      const std::uint64_t sequence = entry.sequence.load(std::memory_order_acquire);  // index after
      // Relaxed, as a guess: read_entry() looks at both again.
      const std::pair place(entry.index.load(std::memory_order_relaxed), sequence);
      if (sequence != 0 && sequence % 2 == 0 && sequence != passed_over[number] &&
          place.first <= index && (!newest || place > newest_place)) {
        newest = number;
        newest_place = place;
      }
    }
    if (!newest) {
      return std::nullopt;
    }
    std::optional<Checkpoint> checkpoint = read_entry(*newest);
    if (checkpoint && checkpoint->index <= index && checkpoint->sequence == newest_place.second) {
      return checkpoint;
    }
    passed_over[*newest] = newest_place.second;
  }
  return std::nullopt;
}

std::vector<Checkpoint> CheckpointReader::between(std::uint64_t first, std::uint64_t last) const {
  std::vector<Checkpoint> found;
  for (std::uint32_t number = 0; number < entries(); ++number) {
    const CheckpointEntry& entry = entry_at(range_, number);
    // Both relaxed, as a guess that saves reading the bytes.
    const std::uint64_t guess = entry.index.load(std::memory_order_relaxed);
    if (entry.sequence.load(std::memory_order_relaxed) == 0 || guess < first || guess > last) {
      continue;
    }
    std::optional<Checkpoint> checkpoint = read_entry(number);
    if (checkpoint && checkpoint->index >= first && checkpoint->index <= last) {
      found.push_back(std::move(*checkpoint));
    }
  }
  std::sort(found.begin(), found.end(), [](const Checkpoint& one, const Checkpoint& other) {
    return one.sequence < other.sequence;
  });
  return found;
}

std::vector<std::uint64_t> CheckpointReader::indexes() const {
  std::vector<std::uint64_t> result;
  for (const Checkpoint& checkpoint : between(0, ~std::uint64_t{0})) {
    result.push_back(checkpoint.index);
  }
  return result;
}

std::optional<Checkpoint> CheckpointReader::oldest(std::size_t bytes) const {
  for (std::uint32_t round = 0; round < kRoundsBesideWriter; ++round) {
    std::optional<std::pair<std::uint64_t, std::uint32_t>> oldest;  // sequence and entry
    for (std::uint32_t number = 0; number < entries(); ++number) {
      const std::uint64_t sequence =
          entry_at(range_, number).sequence.load(std::memory_order_relaxed);  // as a guess
      if (sequence != 0 && sequence % 2 == 0 && (!oldest || sequence < oldest->first)) {
        oldest = {sequence, number};
      }
    }
    if (!oldest) {
      return std::nullopt;
    }
    std::uint64_t checksum = 0;
    if (auto checkpoint = read_begin(oldest->second, bytes, checksum)) {
      return checkpoint;
    }
  }
  return std::nullopt;
}

}  // namespace energon
