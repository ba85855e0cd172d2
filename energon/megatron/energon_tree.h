// The tree of dataset states in a state of Energon's loader.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "energon/state/state_json.h"

namespace energon {

/// Names of Energon's classes.
namespace energon_names {
inline constexpr std::string_view kMap = "MapDataset";
inline constexpr std::string_view kLeaf = "WebdatasetSampleLoaderDataset";
inline constexpr std::string_view kShuffleBuffer = "ShuffleBufferDataset";
}  // namespace energon_names

/// A node of the tree: the state of one dataset of Energon. Members throw Error (kCorruptData) with
/// the path of the missing or invalid element.
class EnergonNode {
 public:
  explicit EnergonNode(JsonReader reader) : reader_(std::move(reader)) {}

  const std::string& type() const;
  const std::string& path() const { return reader_.path(); }
  JsonReader field(std::string_view name) const { return reader_.member(name); }
  std::int64_t count(std::string_view name) const { return field(name).count(); }
  /// The keys of the samples in a shuffle buffer.
  JsonReader buffered_keys() const { return field("_active_buffer").member("_restore_keys"); }
  std::vector<EnergonNode> inner() const;
  /// The only inner node.
  EnergonNode only() const;
  /// Throws Error (kUnsupported) if a generator function had yielded only some of its results.
  void refuse_running_generator() const;

  /// This node, or the first inner one that is not transparent.
  EnergonNode visible() const;
  /// The node of type `type`: this one, or the first inner one that is neither transparent nor a
  /// function that maps each sample to one. Throws Error (kMismatch) with advice if it has another
  /// type; `own` is our name of the stage.
  EnergonNode enter(std::string_view type, std::string_view own) const;

 private:
  JsonReader reader_;
};

/// The leaves of the tree, in order.
std::vector<EnergonNode> leaves_of(const EnergonNode& tree);

/// Samples that came out of the leaves and the shuffle buffer, without those that the dataset
/// excludes.
std::int64_t samples_passed_on(const EnergonNode& tree);

}  // namespace energon
