// Where a rank stands after what it delivered, and the way back: what each of the last batches
// changed.

#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "energon/checkpoint/certificate.h"
#include "energon/checkpoint/loader_state.h"

namespace energon {

/// Counters at the start of an epoch. An epoch without one usable batch is an error.
struct EpochStart {
  std::int64_t batches;
  std::uint64_t failures;
};

/// The place of a rank in its epochs.
struct EpochPlace {
  Turns turns = {};
  bool epoch_finished = false;
  std::optional<std::int64_t> step_in_epoch = 0;
  std::optional<EpochStart> epoch_start = {};  // if it started in this object
};

/// The position of a rank, without the states of its pipelines. A value type.
struct RankPosition {
  EpochPlace place;
  std::vector<std::int64_t> delivered;    // batches of each stream, over all epochs
  std::vector<Certificate> certificates;  // of each stream
  std::int64_t batch_index = 0;

  CheckpointPlace of(std::size_t stream) const {
    return {delivered[stream], place.turns.of(stream).epoch};
  }
};

/// Undoes deliveries. A batch takes 32 bytes; only where a stream or the rank ended an epoch is the
/// whole place kept. Not thread-safe.
class DeliveryLog {
 public:
  /// Keeps the last `batches` deliveries.
  explicit DeliveryLog(std::int64_t batches) : most_(batches) {}

  /// Forgets everything. The streams have delivered these numbers of batches, the rank all
  /// `batch_index`.
  void begin(std::vector<std::int64_t> delivered, std::int64_t batch_index);
  /// The `batch_index` given to begin(). Earlier positions are unknown.
  std::int64_t begin_index() const { return begin_index_; }

  /// A delivery that can no longer be undone.
  struct Forgotten {
    std::size_t stream;
    bool is_place;  ///< first() may have changed for other streams, too
  };

  /// Records that the next batch of `stream` is delivered. `certificate`: of the stream, before it.
  /// `place`: the one before, if more than the turn of the stream changes. Returns what was
  /// forgotten for it.
  std::optional<Forgotten> add_batch(std::size_t stream, const Certificate& certificate,
                                     std::optional<EpochPlace> place);
  /// Records that the end of an epoch is reported. `place`: the one before.
  void add_end(EpochPlace place);

  /// Where `stream` was before all that can be undone. `now`: the place after all that was added.
  CheckpointPlace first(std::size_t stream, const EpochPlace& now) const;

  /// The position after `batch_index` batches, before the end of an epoch that may follow was
  /// reported. `now`: the position after all that was added. Requires: all
  /// batches since then can be undone.
  RankPosition position_at(std::int64_t batch_index, RankPosition now) const;

  /// Forgets what was added after `batch_index`; `now` as for position_at().
  void go_back(std::int64_t batch_index, const RankPosition& now);

  /// The number of the last batches that can be undone with checkpoints from `oldest[stream]` on.
  std::int64_t batches_after(std::span<const CheckpointPlace> oldest,
                             const RankPosition& now) const;

 private:
  static constexpr std::uint32_t kNoStream = ~std::uint32_t{0};

  struct Entry {
    std::uint32_t stream;  // kNoStream: the end of an epoch
    Certificate certificate;
    std::unique_ptr<const EpochPlace> place;  // null: only the stream's turn changed
  };

  void push(Entry entry);
  bool pop_oldest();
  static void undo(const Entry& entry, RankPosition& position);
  std::size_t entries_after(std::int64_t batch_index, std::int64_t now) const;

  const std::int64_t most_;
  std::deque<Entry> entries_;             // newest last
  std::deque<const EpochPlace*> places_;  // of those that have one
  std::int64_t batches_ = 0;
  std::int64_t begin_index_ = 0;
  std::vector<std::int64_t> first_counts_;
};

}  // namespace energon
