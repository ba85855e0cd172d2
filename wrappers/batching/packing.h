// Makes packs of samples selected from a buffer, to waste little space in packs.
//
//   fill the buffer -> select groups of it -> for each group: postencode its samples -> pack
//
// The buffer is full when samples waiting for a selection and samples of selected packs add up to
// `buffer_size`. When no selected pack is left, select gets all waiting samples at once. Samples
// that it does not select are dropped and counted as skipped. At the end of the epoch, it gets the
// remaining samples, and the next epoch starts with an empty buffer. This is Energon's algorithm.
//
// Select may also return parts of samples, any number of times each. The pack function may be a
// generator that makes several packs from the same samples.
//
// A state has the keys of the waiting and the selected samples. After a restore they are rebuilt
// when needed: the samples of a pack when it is emitted, the waiting samples when select runs.

#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "energon/stage/call_context.h"
#include "energon/stage/dataset.h"
#include "energon/stage/stage_guard.h"
#include "wrappers/batching/batch.h"
#include "wrappers/batching/pack_selection.h"
#include "wrappers/buffers/combine.h"
#include "wrappers/stages/map.h"
#include "wrappers/watch/timed_stage.h"

namespace energon {

/// Makes the fields of a pack from its samples. It may move data out of the samples and reorder
/// them; the keys and sources of the pack follow the final order of `samples`.
using PackFunction = std::function<Mapping(std::span<Sample> samples, CallContext& context)>;

/// Like BatchGenerator, for the samples of a selected pack.
using PackGenerator = BatchGenerator;

/// A pack function: one that makes a single pack, or one that makes any number.
using PackStage = std::variant<PackFunction, PackGenerator>;

struct PackingOptions {
  /// Number of waiting and selected samples together; from 1 to 2^24. Larger buffers pack tighter
  /// and need more memory.
  std::int64_t buffer_size = 1000;
  SelectStage select = {};
  /// Makes the parts that a SelectPartsFunction selects. If null, samples are used whole.
  CutFunction cut = nullptr;
  /// Applied to the samples of a pack just before they are packed, for work that is costly or makes
  /// samples large and is not needed to select. If it fails, the pack is made without that sample.
  /// May be null.
  MapFunction postencode = nullptr;
  PackStage pack = {};

  /// Number of full buffers in a row that may yield no pack; one more is an Error
  /// (kInvalidArgument).
  std::int64_t tolerance = 100;
  /// Limit on the payload kept in the buffer; samples beyond it are read again when needed.
  std::uint64_t max_held_bytes = kMaxHeldBytes;

  StageOptions select_stage = {.name = "select"};  ///< a failure skips the whole buffer
  StageOptions postencode_stage = {.name = "postencode"};
  StageOptions pack_stage = {.name = "pack"};
  /// If set, times `select` with `cut`, and `postencode`, separately from the rest of the stage.
  std::shared_ptr<PipelineClock> clock = nullptr;
};

class PackMaker;

class Packing final : public Dataset {
 public:
  /// Takes ownership of `inner`. Throws Error (kInvalidArgument).
  Packing(std::unique_ptr<Dataset> inner, PackingOptions options);
  ~Packing() override;

  /// Also throws Error (kInvalidArgument) if a selection has a position out of range or, for a
  /// SelectFunction, a position twice.
  std::optional<Sample> next() override;
  void next_epoch() override;
  /// Unknown in advance.
  std::optional<std::int64_t> size() const override { return std::nullopt; }
  std::int64_t skip(std::int64_t count) override { return skip_by_running(count); }
  /// With postencode, the inner keys are the keys of its calls: Packing(3)[Map(7)/…,Map(8)/…]. A
  /// part of a sample has the key Packing(begin,end)/…. If several packs are made from the same
  /// samples, each key has the pack's number: Packing(3,1)[…].
  Sample restore_sample(const RestoreKey& key) override;
  void check_key(const RestoreKey& key) const override;
  State save_state() const override;
  Config config() const override;

 private:
  void check_state(const State& state, std::vector<std::string>& differences) const override;
  void check_buffer(const State& state, std::vector<std::string>& differences) const;
  void apply_state(const State& state) override;
  bool fill();
  void select();
  void count_empty_selection();

  const std::unique_ptr<Dataset> inner_;
  const PackingOptions options_;
  const std::unique_ptr<PackSelector> selector_;
  const std::unique_ptr<PackMaker> maker_;  // owns part of the saved state
  PayloadBudget budget_;

  // Saved state.
  std::int64_t selections_ = 0;       // calls of select so far, including failed ones
  SampleBuffer waiting_;              // samples that wait for a selection
  SampleBuffer selected_;             // the samples of the selected packs, concatenated
  std::deque<std::int64_t> lengths_;  // number of samples in each of these packs

  std::int64_t empty_selections_ = 0;  // in a row; 0 after a pack was selected
};

}  // namespace energon
