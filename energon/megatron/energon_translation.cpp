#include "energon/megatron/energon_translation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/megatron/energon_leaf.h"
#include "energon/sample/sample_ref.h"
#include "io/error.h"

namespace energon {

// --- Epochs ---

namespace {

constexpr std::size_t kMostReferences = std::size_t{1} << 28;  // like ShuffleBuffer

std::size_t inner_count(const Config& order) {
  const auto inner = order.find("inner");
  if (inner == order.end()) {
    return 0;
  }
  return inner->is_object() ? 1 : inner->size();
}

template <class Predicate>
bool any_inner(const Config& order, Predicate predicate) {
  for (std::size_t i = 0; i < inner_count(order); ++i) {
    if (predicate(inner_order(order, i))) {
      return true;
    }
  }
  return false;
}

}  // namespace

const Config& inner_order(const Config& config, std::size_t i) {
  const Config& inner = config.at("inner");
  if (inner.is_object()) {
    return inner;
  }
  const Config& entry = inner.at(i);
  return entry.contains("order") ? entry.at("order") : entry;  // of a blend, with its weight
}

bool is_endless(const Config& order) {
  if (order.at("type") == "Repeat") {
    return order.at("repetitions").is_null();
  }
  if (order.at("type") == "SliceOrder") {
    return order.at("shuffle_over_epochs") == "-1";
  }
  return any_inner(order, is_endless);
}

bool has_fractional_repetition(const Config& order) {
  if (order.at("type") == "Repeat" && !order.at("repetitions").is_null()) {
    const auto repetitions = order.at("repetitions").get<double>();
    if (repetitions != std::floor(repetitions)) {
      return true;
    }
  }
  return any_inner(order, has_fractional_repetition);
}

bool has_samples(const Config& order) {
  return order.at("type") == "SliceOrder" ? order.at("samples") != 0
                                          : any_inner(order, has_samples);
}

std::int64_t ended_epochs(const State& order, const Config& config) {
  if (order.type == "SliceOrder") {
    return order.integer("epoch");
  }
  std::optional<std::int64_t> least;
  for (std::size_t i = 0; i < order.children.size(); ++i) {
    const Config& inner = inner_order(config, i);
    if (has_samples(inner)) {
      const std::int64_t ended = ended_epochs(order.children[i], inner);
      least = std::min(ended, least.value_or(ended));
    }
  }
  if (order.type == "Repeat") {
    const auto passes = static_cast<std::int64_t>(config.at("repetitions").get<double>());
    return (least.value_or(0) - order.integer("repetition")) / passes;
  }
  return least.value_or(0);
}

bool is_before_epoch(const State& order, const Config& config) {
  if (order.type == "SliceOrder") {
    return order.integer("epoch_started") == 0 || !has_samples(config);
  }
  if (order.type == "ShuffleBuffer" &&
      !unpack_sample_refs(order.bytes("references"), kMostReferences).empty()) {
    return false;
  }
  for (std::size_t i = 0; i < order.children.size(); ++i) {
    if (!is_before_epoch(order.children[i], inner_order(config, i))) {
      return false;
    }
  }
  return true;
}

// --- Translation ---

namespace {

using energon_names::kLeaf;
using energon_names::kMap;
using energon_names::kShuffleBuffer;

bool is_translated(const Config& stage) {
  constexpr std::string_view kTypes[] = {"Epochize", "Limit", "Map", "Batch"};
  const auto& type = stage.at("type").get_ref<const std::string&>();
  if (type == "RepeatEpochs") {
    return stage.at("repetitions").is_null();  // Energon does not count the epochs of others
  }
  return std::find(std::begin(kTypes), std::end(kTypes), type) != std::end(kTypes);
}

bool has_virtual_epochs(const State& stage) {
  return stage.type == "Epochize" ||
         std::any_of(stage.children.begin(), stage.children.end(), has_virtual_epochs);
}

bool has_batches(const State& stage) {
  return stage.type == "Batch" ||
         std::any_of(stage.children.begin(), stage.children.end(), has_batches);
}

// ("BlendDataset", leaf, "MapDataset", n, …, "Webdataset", index)
SampleRef reference_of(const JsonReader& key) {
  SampleRef ref;
  const std::vector<JsonReader> parts = key.elements();
  for (std::size_t i = 0; i + 1 < parts.size(); i += 2) {
    const std::string& stage = parts[i].text();
    if (stage == "BlendDataset") {
      const std::int64_t leaf = parts[i + 1].count();
      if (leaf > std::numeric_limits<std::uint32_t>::max()) {
        parts[i + 1].fail("expected an existing dataset");
      }
      ref.leaf = static_cast<std::uint32_t>(leaf);
    } else if (stage == "Webdataset") {
      ref.index = parts[i + 1].count();
      return ref;
    }
  }
  key.fail("expected the key of a sample, with \"Webdataset\" and a number");
}

class Translation {
 public:
  Translation(std::int64_t emitted, const TranslationTarget& target)
      : total_(emitted), emitted_(emitted), target_(target) {}

  std::optional<TranslatedState> run(const EnergonNode& tree) {
    const Config* const order = order_in(target_.config);
    if (order == nullptr) {
      return std::nullopt;
    }
    is_endless_ = is_endless(*order);
    passed_on_ = samples_passed_on(tree);
    TranslatedState translated{target_.start};
    translate_stage(translated.state, target_.config, tree);
    // For finite data, Energon resets what has ended, so its tree does not show virtual epochs
    // after the end, nor the progress of a fractional repetition.
    const bool is_unclear =
        !is_endless_ && (has_virtual_epochs(target_.start) || has_fractional_repetition(*order));
    if (is_unclear || is_emptying_) {
      return std::nullopt;
    }
    translated.epoch = epoch_of(order_in(translated.state), *order);
    return translated;
  }

 private:
  void translate_stage(State& stage, const Config& config, const EnergonNode& tree) {
    if (stage.type == "ReadSamples") {
      translate_order(stage.children[0], config.at("order"), tree, false);
      return;
    }
    EnergonNode node = tree.visible();
    if (stage.type == "Map") {
      node = translate_map(stage, config, node);
    } else if (stage.type == "Batch") {
      node = node.enter("BatchDataset", "batches");
      node.refuse_running_generator();
      set_field(stage, "batches", node.count("_sample_index"));
      node = node.only();
    } else if (stage.type == "RepeatEpochs") {
      node = node.enter("RepeatDataset", "repeated epochs");
      set_field(stage, "repetition", node.count("_repetition"));
      set_field(stage, "taken", node.count("_index"));
      is_in_one_epoch_ = is_in_one_epoch_ || !epoch_offset_;
      node = node.only();
    } else {
      const bool is_limit = stage.type == "Limit";
      node = is_limit ? node.enter("LimitDataset", "a limit of batches")
                      : node.enter("EpochizeDataset", "virtual epochs");
      const char* const field = is_limit ? "current_offset" : "_offset";
      const std::int64_t offset = node.count(field);
      if (offset > config.at("length").get<std::int64_t>()) {
        node.field(field).fail(
            fmt::format("expected at most the {} batches of this worker's epochs; check "
                        "the length of epochs",
                        config.at("length").get<std::int64_t>()));
      }
      set_field(stage, "offset", offset);
      if (!epoch_offset_ && !is_in_one_epoch_) {
        epoch_offset_ = offset;
      }
      if (is_limit) {
        emitted_ = offset;  // each epoch starts the inner stages over
      }
      node = node.only();
    }
    translate_stage(stage.children[0], config.at("inner"), node);
  }

  // Returns the node for the inner stage. The node may be missing, because Energon decodes and
  // cooks each dataset separately while we do it after mixing, and its default functions are stages
  // while ours are not.
  EnergonNode translate_map(State& stage, const Config& config, const EnergonNode& node) const {
    const std::string name = config.value("name", "");
    const bool is_of_leaf =
        name == "cook" || name == "decode" || name == "load_sample" || name == "tokenize";
    if (node.type() == kMap && !is_of_leaf) {
      node.refuse_running_generator();
      set_field(stage, "calls", node.count("_sample_index"));
      return node.only();
    }
    set_field(stage, "calls", has_batches(stage) ? emitted_ : passed_on_);
    return node;
  }

  void translate_order(State& stage, const Config& config, const EnergonNode& tree, bool is_over) {
    if (stage.type == "ShuffleBuffer") {
      translate_buffer(stage, config, tree.enter(kShuffleBuffer, "a shuffle buffer"));
    } else if (stage.type == "Blend") {
      translate_blend(stage, config, tree.enter("BlendDataset", "a blend"), is_over);
    } else if (stage.type == "Concat") {
      translate_concat(stage, config, tree.enter("ConcatDataset", "datasets in order"));
    } else if (stage.type == "Repeat") {
      const EnergonNode node = tree.enter("RepeatDataset", "repeated data");
      check_repetition(config, node);
      set_field(stage, "repetition", node.count("_repetition"));
      set_field(stage, "taken", node.count("_index"));
      translate_order(stage.children[0], config.at("inner"), node.only(), is_over);
    } else if (stage.type == "SliceOrder") {
      stage = translate_energon_leaf(stage, config, tree.enter(kLeaf, "a dataset"), is_over,
                                     target_.check_cancelled);
      passes_.push_back(stage.integer("epoch"));
    } else {
      throw Error(ErrorCode::kMismatch,
                  fmt::format("{}: the datasets are mixed by {}, which Energon does not have: draw "
                              "them by weight",
                              tree.path(), stage.type));
    }
  }

  static void check_repetition(const Config& config, const EnergonNode& node) {
    const std::int64_t passes = node.count("_repetition");
    if (config.at("repetitions").is_null() && passes > 0 &&
        has_fractional_repetition(config.at("inner"))) {
      throw Error(
          ErrorCode::kUnsupported,
          fmt::format("{}: Energon has read data with a fractional repetition {} times; "
                      "from the second time on, it continues in the middle of the last pass, "
                      "while ours starts a new pass and has no such position",
                      node.path(), passes));
    }
  }

  static std::vector<EnergonNode> inner_nodes(const State& stage, const EnergonNode& node) {
    std::vector<EnergonNode> inner = node.inner();
    if (inner.size() != stage.children.size()) {
      throw Error(ErrorCode::kMismatch,
                  fmt::format("{}: Energon's job has {} datasets, this one {}; check the data and "
                              "its split",
                              node.path(), inner.size(), stage.children.size()));
    }
    return inner;
  }

  void translate_blend(State& stage, const Config& config, const EnergonNode& node, bool is_over) {
    const std::vector<EnergonNode> inner = inner_nodes(stage, node);
    const std::vector<JsonReader> marks = node.field("exhausted").elements();
    if (marks.size() != inner.size()) {
      node.field("exhausted").fail(fmt::format("expected {} entries", inner.size()));
    }
    std::vector<std::int64_t> exhausted;
    for (std::size_t i = 0; i < inner.size(); ++i) {
      const bool has_ended = marks[i].boolean();
      translate_order(stage.children[i], inner_order(config, i), inner[i], is_over || has_ended);
      // A dataset without samples needs no mark.
      exhausted.push_back(has_ended && has_samples(inner_order(config, i)) ? 1 : 0);
    }
    set_field(stage, "exhausted", std::move(exhausted));
    set_field(stage, "rng", read_energon_generator(node, target_.seed).state());
  }

  // Energon does not count parts: those before the current one have ended one more epoch.
  void translate_concat(State& stage, const Config& config, const EnergonNode& node) {
    const std::vector<EnergonNode> inner = inner_nodes(stage, node);
    for (std::size_t i = 0; i < inner.size(); ++i) {
      translate_order(stage.children[i], inner_order(config, i), inner[i], false);
    }
    const std::int64_t epochs = ended_epochs(stage, config);
    std::int64_t current = 0;
    for (std::size_t i = 0; i < inner.size(); ++i) {
      const Config& part = inner_order(config, i);
      if (has_samples(part) && ended_epochs(stage.children[i], part) > epochs) {
        translate_order(stage.children[i], part, inner[i], true);
        current = static_cast<std::int64_t>(i) + 1;
      }
    }
    set_field(stage, "current", current);
  }

  void translate_buffer(State& stage, const Config& config, const EnergonNode& node) {
    const auto size = config.at("size").get<std::int64_t>();
    std::vector<SampleRef> refs;
    for (const JsonReader& key : node.buffered_keys().elements()) {
      refs.push_back(reference_of(key));
    }
    const std::int64_t expected = emitted_ > 0 ? size - 1 : 0;
    if (std::ssize(refs) != expected) {
      if (is_endless_ || std::ssize(refs) > expected) {
        throw Error(
            ErrorCode::kMismatch,
            fmt::format("{}: {} samples are in Energon's shuffle buffer, expected {} in one "
                        "of {}; check the size of the shuffle buffer",
                        node.path(), refs.size(), expected, size));
      }
      is_emptying_ = true;
    }
    translate_order(stage.children[0], config.at("inner"), node.only(), false);
    set_field(stage, "rng", read_energon_generator(node, target_.seed).state());
    SampleRefPacker packer;
    for (SampleRef& ref : refs) {
      // Energon does not keep in which pass a sample was read; it has no effect.
      ref.repetition =
          static_cast<std::uint32_t>(ref.leaf < passes_.size() ? passes_[ref.leaf] : 0);
    }
    packer.measure(refs);
    packer.add(refs);
    set_field(stage, "references", packer.take());
  }

  std::int64_t epoch_of(const State& order, const Config& config) const {
    if (epoch_offset_) {
      // Rounded: the batches may have had another size before.
      const std::int64_t size = std::max<std::int64_t>(target_.epoch_size.value_or(0), 1);
      return (total_ - *epoch_offset_ + size / 2) / size;
    }
    return is_endless_ || is_in_one_epoch_ ? 0 : ended_epochs(order, config);
  }

  const std::int64_t total_;  // items that the worker delivered
  std::int64_t emitted_;      // those since the stages that are being translated last started over
  const TranslationTarget& target_;
  bool is_endless_ = false;
  std::int64_t passed_on_ = 0;
  bool is_emptying_ = false;  // whether the shuffle buffer drains at the end of finite data
  std::optional<std::int64_t> epoch_offset_;  // in virtual or limited epochs
  bool is_in_one_epoch_ = false;              // whether an epoch repeats the inner ones forever
  std::vector<std::int64_t> passes_;          // of each leaf
};

}  // namespace

const Config* order_in(const Config& pipeline) {
  const Config* node = &pipeline;
  while (node->at("type") != "ReadSamples") {
    if (!is_translated(*node)) {
      return nullptr;
    }
    node = &node->at("inner");
  }
  return &node->at("order");
}

const State& order_in(const State& pipeline) {
  const State* node = &pipeline;
  while (node->type != "ReadSamples") {
    node = &node->children.at(0);
  }
  return node->children.at(0);
}

std::optional<TranslatedState> translate_energon_tree(const EnergonNode& tree, std::int64_t emitted,
                                                      const TranslationTarget& target) {
  return Translation(emitted, target).run(tree);
}

}  // namespace energon
