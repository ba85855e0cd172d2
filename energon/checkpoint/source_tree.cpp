#include "energon/checkpoint/source_tree.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "energon/checkpoint/own_position.h"
#include "io/error.h"

namespace energon {
namespace {

constexpr const char* kLoader = "Loader";

// A count in the position of a source that is no loader; 0 if the source does not count.
std::int64_t counter(const State& node, std::string_view name) {
  const auto found = std::find_if(node.fields.begin(), node.fields.end(),
                                  [name](const auto& field) { return field.first == name; });
  const auto* value =
      found == node.fields.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
  return value != nullptr && *value >= 0 ? *value : 0;
}

SavableDataLoaderState from_innermost(const State& node) {
  if (node.type == kLoader) {
    return decode_loader_state(node.bytes("state"));
  }
  return own_state(node, {counter(node, "epoch"), counter(node, "batches")});
}

}  // namespace

State to_tree(const SavableDataLoaderState& state) {
  State tree;
  if (const State* position = own_position(state)) {
    tree = *position;
  } else {
    SavableDataLoaderState loader = state;
    loader.adapters.clear();
    tree = {kLoader, {{"state", encode_loader_state(loader)}}, {}};
  }
  for (auto adapter = state.adapters.rbegin(); adapter != state.adapters.rend(); ++adapter) {
    State outer = *adapter;
    outer.children.push_back(std::move(tree));
    tree = std::move(outer);
  }
  return tree;
}

SavableDataLoaderState from_tree(const State& tree) {
  std::vector<State> adapters;
  const State* node = &tree;
  for (; !node->children.empty(); node = &node->children.front()) {
    if (node->children.size() > 1) {
      throw Error(ErrorCode::kMismatch, fmt::format("{}: {} inner states, an adapter has one",
                                                    node->type, node->children.size()));
    }
    adapters.push_back({node->type, node->fields, {}});
  }
  SavableDataLoaderState state = from_innermost(*node);
  if (!state.adapters.empty()) {
    throw Error(ErrorCode::kMismatch, "the state of the innermost loader has adapters");
  }
  state.adapters = std::move(adapters);
  check_loader_state(state, "state");
  return state;
}

}  // namespace energon
