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

/// Starts each slot; the checkpoint follows. A word is odd in `sequence` while a slot is written.
struct CheckpointSlot {
  std::atomic<std::uint64_t> sequence;
  std::atomic<std::uint64_t> index;
  std::atomic<std::uint64_t> size_bytes;
  std::atomic<std::uint64_t> checksum;
  std::uint64_t reserved[4];
};

namespace {

static_assert(sizeof(CheckpointSlot) == 64);
static_assert(std::atomic_ref<std::uint64_t>::is_always_lock_free);

constexpr std::uint64_t kMaxSlotBytes = std::uint64_t{1} << 40;
constexpr std::uint64_t kWord = sizeof(std::uint64_t);
constexpr std::uint32_t kRoundsBesideWriter = 16;

std::uint64_t slot_stride(const CheckpointRingOptions& options) {
  return align_up(sizeof(CheckpointSlot) + align_up(options.slot_bytes, kWord), page_bytes());
}

CheckpointSlot& slot_at(const SharedRange& range, const CheckpointRingOptions& options,
                        std::uint64_t slot) {
  return *reinterpret_cast<CheckpointSlot*>(range.data() + slot * slot_stride(options));
}

std::uint64_t* words_of(CheckpointSlot& slot) {
  return reinterpret_cast<std::uint64_t*>(&slot + 1);
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

/// Word by word, so that a reader that overlaps reads old or new words, not a data race.
void store_words(std::uint64_t* words, ByteView bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += kWord) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min<std::size_t>(kWord, bytes.size() - at));
    // Release: who sees this word also sees the odd sequence.
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
  if (options.slots < 2 || options.slots > 65536 || options.slot_bytes > kMaxSlotBytes) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("n_checkpoints is {} (from 2 to 65536), checkpoint_slot_bytes {} (at "
                            "most {})",
                            options.slots, options.slot_bytes, kMaxSlotBytes));
  }
  return options.slots * slot_stride(options);
}

CheckpointWriter::CheckpointWriter(SharedRange range, CheckpointRingOptions options)
    : range_(std::move(range)), options_(options) {
  check_range(range_, options_);
}

void CheckpointWriter::write(std::uint64_t index, ByteView bytes) {
  owner_.check("a checkpoint ring");
  if (bytes.size() > options_.slot_bytes) {
    throw Error(ErrorCode::kResourceExhausted,
                fmt::format("a checkpoint of {} bytes is larger than its slot of {} bytes; raise "
                            "checkpoint_slot_bytes (--checkpoint-slot-mib)",
                            bytes.size(), options_.slot_bytes));
  }
  if (last_index_ && index < *last_index_) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("checkpoint {} after checkpoint {}", index, *last_index_));
  }
  CheckpointSlot& slot = slot_at(range_, options_, written_ % options_.slots);
  const std::uint64_t odd = 2 * written_ + 1;           // the higher, the newer, over all slots
  slot.sequence.store(odd, std::memory_order_relaxed);  // ordered by the releases that follow
  slot.index.store(index, std::memory_order_release);   // after `odd`, as every word below
  slot.size_bytes.store(bytes.size(), std::memory_order_release);
  slot.checksum.store(checksum_of(index, bytes), std::memory_order_release);
  const std::size_t half = bytes.size() / 2 / kWord * kWord;
  store_words(words_of(slot), bytes.first(half));
  ENERGON_FAIL_POINT("checkpoint.half_written");
  store_words(words_of(slot) + half / kWord, bytes.subspan(half));
  slot.sequence.store(odd + 1, std::memory_order_release);  // publishes the words
  ++written_;
  last_index_ = index;
}

CheckpointReader::CheckpointReader(SharedRange range, CheckpointRingOptions options)
    : range_(std::move(range)), options_(options) {
  check_range(range_, options_);
}

std::optional<Checkpoint> CheckpointReader::read_slot(std::uint32_t number) const {
  CheckpointSlot& slot = slot_at(range_, options_, number);
  const std::uint64_t before = slot.sequence.load(std::memory_order_acquire);  // words after it
  if (before == 0 || before % 2 != 0) {
    return std::nullopt;
  }
  Checkpoint checkpoint;
  checkpoint.sequence = before;
  checkpoint.index = slot.index.load(std::memory_order_acquire);  // as load_words()
  const std::uint64_t size = slot.size_bytes.load(std::memory_order_acquire);
  const std::uint64_t checksum = slot.checksum.load(std::memory_order_acquire);
  if (size > options_.slot_bytes) {
    return std::nullopt;
  }
  checkpoint.bytes.resize(size);
  load_words(words_of(slot), checkpoint.bytes);
  // Relaxed: the acquire loads before it keep it last.
  if (slot.sequence.load(std::memory_order_relaxed) != before ||
      checksum != checksum_of(checkpoint.index, checkpoint.bytes)) {
    return std::nullopt;
  }
  return checkpoint;
}

std::optional<Checkpoint> CheckpointReader::newest_not_after(std::uint64_t index) const {
  std::vector<std::uint64_t> passed_over(options_.slots);  // sequence at which a slot was no use
  // Each round returns a checkpoint or passes a slot over, which comes back only when it is written
  // again: more rounds than this need a writer that is faster than the reader.
  for (std::uint32_t rounds = options_.slots + kRoundsBesideWriter; rounds > 0; --rounds) {
    std::optional<std::uint32_t> newest;
    std::pair<std::uint64_t, std::uint64_t> newest_place;
    for (std::uint32_t number = 0; number < options_.slots; ++number) {
      const CheckpointSlot& slot = slot_at(range_, options_, number);
      const std::uint64_t sequence = slot.sequence.load(std::memory_order_acquire);  // index after
      // Relaxed, as a guess: read_slot() looks at both again.
      const std::pair place(slot.index.load(std::memory_order_relaxed), sequence);
      if (sequence != 0 && sequence % 2 == 0 && sequence != passed_over[number] &&
          place.first <= index && (!newest || place > newest_place)) {
        newest = number;
        newest_place = place;
      }
    }
    if (!newest) {
      return std::nullopt;
    }
    std::optional<Checkpoint> checkpoint = read_slot(*newest);
    if (checkpoint && checkpoint->index <= index && checkpoint->sequence == newest_place.second) {
      return checkpoint;
    }
    passed_over[*newest] = newest_place.second;
  }
  return std::nullopt;
}

std::vector<std::uint64_t> CheckpointReader::indexes() const {
  std::vector<std::uint64_t> result;
  for (std::uint32_t slot = 0; slot < options_.slots; ++slot) {
    if (const auto checkpoint = read_slot(slot)) {
      result.push_back(checkpoint->index);
    }
  }
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace energon
