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

  /// Continues from `state`: yields the items that followed when it was saved. Throws Error
  /// (kMismatch) that lists all differences if the state belongs to another pipeline; this object
  /// is then unchanged.
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

// The digests of side files in the configuration of a dataset. A configuration has them only where
// the data has the files: checksums, for example, can be written later. docs/formats/checkpoint.md
// defines them.

inline constexpr std::array<std::string_view, 2> kSideFileDigests = {"indexes", "checksums"};

/// A copy of `config` without these members, at any depth.
Config without_side_files(const Config& config);

/// Appends "path: <a>, expected <b>" for every leaf in which the configs differ. Digests of side
/// files are compared only where both configs have them.
void compare_configs(const Config& config, const Config& expected, const std::string& path,
                     std::vector<std::string>& differences);

/// The values of all members called `name` in `config`, at any depth and in order; empty if there
/// are none.
Config values_of_member(const Config& config, std::string_view name);

}  // namespace energon
