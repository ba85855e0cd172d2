// The interface that every stage of a pipeline implements besides yielding items: save its state,
// restore it, and report its configuration.

#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "energon/state/state.h"

namespace energon {

using Config = nlohmann::ordered_json;

/// Not thread-safe: one thread drives a pipeline.
class Savable {
 public:
  Savable() = default;
  virtual ~Savable() = default;
  Savable(const Savable&) = delete;
  Savable& operator=(const Savable&) = delete;

  /// The position after the items yielded so far. Has no side effects.
  virtual State save_state() const = 0;

  /// Continues from `state`: yields the items that followed when the state was saved. If the state
  /// belongs to another pipeline, throws Error (kMismatch) that lists all differences, and leaves
  /// this object unchanged.
  void restore_state(const State& state);

  /// The settings that determine the order, inner stages included: equal configs mean equal
  /// streams. Compared on restore.
  virtual Config config() const = 0;

 protected:
  /// Appends the invalid values of a state whose shape fits, inner stages included.
  virtual void check_state(const State& state, std::vector<std::string>& differences) const = 0;
  /// Applies a state that check_state() accepted.
  virtual void apply_state(const State& state) = 0;

  // For stages, to call on their inner stages.
  static void check(const Savable& stage, const State& state,
                    std::vector<std::string>& differences) {
    stage.check_state(state, differences);
  }
  static void apply(Savable& stage, const State& state) { stage.apply_state(state); }
};

// Digests of side files in the configuration of a dataset. A digest is present only if the dataset
// has the file; checksums, for example, can be added later. Defined in docs/formats/checkpoint.md.

inline constexpr std::array<std::string_view, 2> kSideFileDigests = {"indexes", "checksums"};

/// A copy of `config` without these digests, at any depth.
Config without_side_files(const Config& config);

/// Appends "path: <a>, expected <b>" for every value in which the configs differ. Digests of side
/// files are compared only if both configs have them.
void compare_configs(const Config& config, const Config& expected, const std::string& path,
                     std::vector<std::string>& differences);

/// The values of all members called `name` in `config`, at any depth, in order of occurrence.
Config values_of_member(const Config& config, std::string_view name);

}  // namespace energon
