// Packs of samples that are selected from a buffer, so that little room in them is wasted.
//
//   fill the buffer -> select groups of it -> for each group: postencode its samples -> pack
//
// Filled means: samples that wait for a selection and samples of packs that were selected are
// together `buffer_size`. Select sees all waiting samples at once, when no selected pack is left;
// samples that it does not select are dropped and counted as skipped. At the end of the epoch it
// sees what is there, and the next epoch starts with an empty buffer. This is Energon's algorithm.
//
// Select may also give parts of samples, each as often as it wants, and the pack function may be a
// generator that makes several packs of the same samples.
//
// A state has the keys of the waiting and of the selected samples. After a restore they are rebuilt
// when they are needed: those of a pack when it is emitted, those that wait when select runs.

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
#include "wrappers/batching/pack_call.h"
#include "wrappers/batching/pack_selection.h"
#include "wrappers/held/sample_buffer.h"
#include "wrappers/stages/map.h"
#include "wrappers/watch/function_timer.h"

namespace energon {

/// Makes the fields of a pack from its samples, which it may take apart and reorder; keys and
/// sources of the pack follow the order in which it leaves them.
using PackFunction = std::function<Mapping(std::span<Sample> samples, CallContext& context)>;

/// A function of the samples of a selected pack: one that makes one pack, or one that makes any
/// number.
using PackStage = std::variant<PackFunction, PackGenerator>;

struct PackingOptions {
  /// Samples waiting and selected, together; from 1 to 2^24. Larger buffers pack tighter and need
  /// more memory.
  std::int64_t buffer_size = 1000;
  SelectStage select = {};
  /// Makes the parts that a SelectPartsFunction selects. Absent: samples are used as they are.
  CutFunction cut = nullptr;
  /// Applied to the samples of a pack just before they are packed: what is costly or large and not
  /// needed to select. One that fails leaves the pack without its sample. May be absent.
  MapFunction postencode = nullptr;
  PackStage pack = {};

  /// So many full buffers in a row may give no pack; one more is an Error (kInvalidArgument).
  std::int64_t tolerance = 100;
  /// Payload kept in the buffer; samples beyond are read again when they are needed.
  std::uint64_t max_held_bytes = kMaxHeldBytes;

  StageOptions select_stage = {.name = "select"};  ///< a failure leaves the whole buffer out
  StageOptions postencode_stage = {.name = "postencode"};
  StageOptions pack_stage = {.name = "pack"};
  /// Times `select` with `cut`, and `postencode`, apart from the rest, if given.
  std::shared_ptr<PipelineClock> clock = nullptr;
};

class Packing final : public Dataset {
 public:
  /// Takes `inner`. Throws Error (kInvalidArgument).
  Packing(std::unique_ptr<Dataset> inner, PackingOptions options);

  /// Also throws Error (kInvalidArgument) for a selection with positions that do not exist or, of a
  /// SelectFunction, come twice.
  std::optional<Sample> next() override;
  void next_epoch() override;
  /// Not known beforehand.
  std::optional<std::int64_t> size() const override { return std::nullopt; }
  std::int64_t skip(std::int64_t count) override { return skip_by_running(count); }
  /// With postencode, the inner keys are those of its calls: Packing(3)[Map(7)/…,Map(8)/…]. A part
  /// of a sample has the key Packing(begin,end)/…, and of several packs of the same samples each
  /// has its number: Packing(3,1)[…].
  Sample restore_sample(const RestoreKey& key) override;
  void check_key(const RestoreKey& key) const override;
  State save_state() const override;
  Config config() const override;

 private:
  void check_state(const State& state, std::vector<std::string>& differences) const override;
  void check_running(const State& state, std::vector<std::string>& differences) const;
  void check_keys_of_pack(std::span<const RestoreKey> keys) const;
  void check_selected(const RestoreKey& key) const;
  void apply_state(const State& state) override;
  bool fill();
  using Selection = std::vector<std::vector<SelectedPart>>;

  bool selects_parts() const {
    return std::holds_alternative<SelectPartsFunction>(options_.select);
  }
  bool is_generating() const { return std::holds_alternative<PackGenerator>(options_.pack); }
  void select();
  Selection run_select(std::vector<Sample>& samples);
  Selection call_select(const std::vector<Sample>& samples);
  std::optional<Sample> cut(Sample sample, const SamplePart& part);
  Sample call_cut(Sample sample, const SamplePart& part) const;
  Sample rebuild_selected(const RestoreKey& key);
  Sample restore_selected(const RestoreKey& key);
  std::optional<Sample> next_pack();
  std::vector<Sample> postencode(std::vector<Sample> samples);
  std::vector<Sample> restore_samples_of_pack(std::span<const RestoreKey> keys);
  Sample make_pack(std::span<Sample> samples, std::int64_t number) const;
  void begin_call(std::vector<Sample> samples, std::int64_t number);
  void begin_call_again();
  std::optional<Sample> next_output();
  void end_call();

  const std::unique_ptr<Dataset> inner_;
  const PackingOptions options_;
  StageGuard select_guard_;
  StageGuard postencode_guard_;
  StageGuard pack_guard_;
  const FunctionTimer select_timer_;
  const FunctionTimer postencode_timer_;
  PayloadBudget budget_;

  // Saved state.
  std::int64_t selections_ = 0;       // made ever, those that failed included, as all three
  std::int64_t postencodes_ = 0;      // calls
  std::int64_t packs_ = 0;            // made
  SampleBuffer waiting_;              // for a selection
  SampleBuffer selected_;             // the samples of the selected packs, one after the other
  std::deque<std::int64_t> lengths_;  // of these packs, in samples
  RestoreKey running_;                // the selected pack whose packs are given; empty: none
  std::int64_t outputs_ = 0;          // of it that were given

  std::unique_ptr<PackCall> call_;  // that makes them; made again if it is missing

  std::int64_t empty_selections_ = 0;  // in a row; none when a pack was just emitted
};

}  // namespace energon
