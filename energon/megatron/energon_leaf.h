// The leaves in states of Energon's loader: the order of one dataset, and its generator.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "energon/megatron/energon_tree.h"
#include "energon/state/savable.h"
#include "energon/state/state.h"

namespace energon {

/// A generator in a state of Energon's loader, parsed from the bytes of torch's CPU generator: its
/// seed and its position.
class EnergonGenerator {
 public:
  /// `bytes`: torch.Generator.get_state() (CPUGeneratorImplState, 5,056 bytes). Throws Error
  /// (kCorruptData).
  explicit EnergonGenerator(std::string_view bytes);

  std::uint64_t seed() const { return seed_; }
  /// Its state in the form of Mt19937::save(): the seed and the number of draws if these are few,
  /// else the words.
  std::string state() const;
  /// Whether this is the generator of its seed after `draws` numbers. Takes a few ns per number;
  /// calls `check_cancelled`, if set, every few ms, which may throw.
  bool has_drawn(std::uint64_t draws, const std::function<void()>& check_cancelled = {}) const;

 private:
  std::uint64_t seed_ = 0;
  std::string words_;  // the long form of Mt19937::save()
};

/// The state of a generator of `seed` after `draws` numbers, in the form of Mt19937::save(). Takes
/// time and calls `check_cancelled` as has_drawn().
std::string generator_after(std::uint32_t seed, std::uint64_t draws,
                            const std::function<void()>& check_cancelled = {});

/// Replaces a field of a state. Requires: `state` has the field `name`.
void set_field(State& state, std::string_view name, StateValue value);

/// Advice for datasets whose order differs.
inline constexpr std::string_view kOtherOrder =
    "check the data, the number of ranks and the order of their files, the seed offset, "
    "max_samples_per_sequence, shuffle_over_epochs and parallel_shard_iters (parallel_slices)";

/// The generator of a dataset (its field _worker_rng). Throws Error (kMismatch) unless it was made
/// of `seed`, that of the worker.
EnergonGenerator read_energon_generator(const EnergonNode& node, std::uint32_t seed);

/// The state of a SliceOrder at the place of `node`, a WebdatasetSampleLoaderDataset. `start`: its
/// state at the start; `config`: its configuration. `is_over`: its epoch has ended, but not that
/// of the orders around it. Numbers that Energon drew are drawn again, a few ns each;
/// `check_cancelled`, if there is one, is called meanwhile and may throw. Throws Error: kMismatch,
/// kCorruptData.
State translate_energon_leaf(const State& start, const Config& config, const EnergonNode& node,
                             bool is_over, const std::function<void()>& check_cancelled);

}  // namespace energon
