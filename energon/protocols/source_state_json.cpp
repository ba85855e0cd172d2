#include "energon/protocols/source_state_json.h"

#include <vector>

#include <nlohmann/json.hpp>

#include "energon/checkpoint/loader_state.h"
#include "energon/checkpoint/state_forms.h"
#include "energon/state/state_json.h"

namespace energon {
namespace {

using nlohmann::ordered_json;

constexpr const char* kLoader = "Loader";

void show_loaders(const State& state, ordered_json& json) {
  if (state.type == kLoader) {
    const SavableDataLoaderState loader = decode_loader_state(state.bytes("state"));
    json = {{"type", kLoader}, {"loader", loader_state_to_json(loader)}};
    return;
  }
  for (std::size_t i = 0; i < state.children.size(); ++i) {
    show_loaders(state.children[i], json["inner"][i]);
  }
}

// Puts the plain form of the loaders in place of the readable one.
void hide_loaders(ordered_json& json, const std::string& path) {
  const JsonReader reader(json, path);
  if (const auto loader = reader.find("loader")) {
    reader.require_only({"type", "loader"});
    if (reader.member("type").text() != kLoader) {
      reader.member("type").fail("only the state of a Loader has 'loader'");
    }
    json = state_to_json(
        {kLoader,
         {{"state", encode_loader_state(loader_state_from_json(loader->json(), loader->path()))}},
         {}});
    return;
  }
  if (const auto inner = reader.find("inner")) {
    const std::vector<JsonReader> children = inner->elements();
    for (std::size_t i = 0; i < children.size(); ++i) {
      hide_loaders(json["inner"][i], children[i].path());
    }
  }
}

}  // namespace

ordered_json source_state_to_json(const SavableDataLoaderState& state) {
  const State tree = to_tree(state);
  ordered_json json = state_to_json(tree);
  show_loaders(tree, json);
  return json;
}

SavableDataLoaderState source_state_from_json(const ordered_json& json, const std::string& path) {
  check_depth(json, path);
  ordered_json plain = json;
  hide_loaders(plain, path);
  return from_tree(state_from_json(plain, path));
}

}  // namespace energon
