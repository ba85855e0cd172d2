#include "energon/megatron/energon_tree.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/error.h"

namespace energon {
namespace {

using energon_names::kLeaf;
using energon_names::kMap;
using energon_names::kShuffleBuffer;

constexpr std::size_t kMostNameBytes = 200;

bool is_transparent(std::string_view type) {
  constexpr std::array<std::string_view, 4> kNames = {"SimpleSavableDatasetWrapper", "GcDataset",
                                                      "WatchdogDataset", "LogSampleDataset"};
  return std::find(kNames.begin(), kNames.end(), type) != kNames.end();
}

// An optional stage.
struct OptionalStage {
  std::string_view type;
  std::string_view advice;
};

constexpr std::string_view kAdviceOfData =
    "check the data, its split, whether it is for training, and whether it is repeated";
// Outermost first.
constexpr OptionalStage kStages[] = {
    {"EpochizeDataset", "check the length of virtual epochs"},
    {"LimitDataset", "check the limit of batches"},
    {"BatchDataset", "check the batch size"},
    {kShuffleBuffer, "check the size of the shuffle buffer"},
    {"RepeatDataset", kAdviceOfData},
    {"BlendDataset", kAdviceOfData},
    {"ConcatDataset", kAdviceOfData},
    {kLeaf, kAdviceOfData},
};

// Advice if one job has the stage `found` and the other one `expected`: the outer one of them is
// missing in one job.
std::string_view advice_for(std::string_view found, std::string_view expected) {
  const auto is_known = [found](const OptionalStage& stage) { return stage.type == found; };
  if (std::none_of(std::begin(kStages), std::end(kStages), is_known)) {
    return "functions decide which samples are used: import the state in Python with the job's "
           "task "
           "encoder, energon_cpp.import_energon_state()";
  }
  return std::find_if(std::begin(kStages), std::end(kStages),
                      [&](const OptionalStage& stage) {
                        return stage.type == found || stage.type == expected;
                      })
      ->advice;
}

void list_leaves(const EnergonNode& node, std::vector<EnergonNode>& leaves) {
  if (node.type() == kLeaf) {
    leaves.push_back(node);
  }
  for (const EnergonNode& inner : node.inner()) {
    list_leaves(inner, leaves);
  }
}

}  // namespace

const std::string& EnergonNode::type() const {
  const JsonReader reader = reader_.member("__class__");
  if (reader.text().size() > kMostNameBytes) {
    reader.fail(fmt::format("a name of {} bytes is not the name of a class", reader.text().size()));
  }
  return reader.text();
}

std::vector<EnergonNode> EnergonNode::inner() const {
  std::vector<EnergonNode> nodes;
  if (const auto inner = reader_.find("datasets")) {
    for (JsonReader& reader : inner->elements()) {
      nodes.emplace_back(std::move(reader));
    }
  }
  return nodes;
}

EnergonNode EnergonNode::only() const {
  std::vector<EnergonNode> nodes = inner();
  if (nodes.size() != 1) {
    throw Error(ErrorCode::kCorruptData, fmt::format("{}: the {} has {} inner states, expected one",
                                                     path(), printable(type()), nodes.size()));
  }
  return std::move(nodes.front());
}

void EnergonNode::refuse_running_generator() const {
  for (const char* name : {"_generator_sample_key", "_generator_sample_keys"}) {
    if (const auto key = reader_.find(name); key && !key->is_null()) {
      throw Error(
          ErrorCode::kUnsupported,
          fmt::format("{}: a generator function of Energon's job had yielded only some of its "
                      "results; import a state that was saved at another batch",
                      path()));
    }
  }
}

EnergonNode EnergonNode::visible() const {
  EnergonNode node = *this;
  while (is_transparent(node.type())) {
    node = node.only();
  }
  return node;
}

EnergonNode EnergonNode::enter(std::string_view type, std::string_view own) const {
  EnergonNode node = visible();
  while (node.type() == kMap) {
    node.refuse_running_generator();
    node = node.only().visible();
  }
  if (node.type() != type) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("{}: Energon's job has a {} where this one has {}; {}", node.path(),
                            printable(node.type()), own, advice_for(node.type(), type)));
  }
  return node;
}

std::vector<EnergonNode> leaves_of(const EnergonNode& tree) {
  std::vector<EnergonNode> leaves;
  list_leaves(tree, leaves);
  return leaves;
}

std::int64_t samples_passed_on(const EnergonNode& tree) {
  std::int64_t samples = 0;
  if (tree.type() == kShuffleBuffer) {
    samples -= std::ssize(tree.buffered_keys().json());
  }
  for (const EnergonNode& inner : tree.inner()) {
    if (inner.type() != kLeaf) {
      samples += samples_passed_on(inner);
    } else {
      samples += tree.type() == kMap ? tree.count("_sample_index") : inner.count("_sample_count");
    }
  }
  return samples;
}

}  // namespace energon
