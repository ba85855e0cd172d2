#include "protocols/accelerate/adapter.h"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/loader_state.h"
#include "io/error.h"

namespace energon {

// --- Adapter ---

SavableDataLoaderState Adapter::put_over(State node, SavableDataLoaderState source) {
  source.adapters.insert(source.adapters.begin(), std::move(node));
  return source;
}

Adapter::Parts Adapter::take_apart(const SavableDataLoaderState& state, std::string_view type) {
  if (state.adapters.empty() || state.adapters.front().type != type) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("the state does not fit this {}: it belongs to a {}", type,
                            source_kind(state)));
  }
  Parts parts{state.adapters.front(), state};
  parts.source.adapters.erase(parts.source.adapters.begin());
  return parts;
}

// --- ForwardingAdapter ---

template <class Source>
Config ForwardingAdapter<Source>::state_config() {
  return source_->state_config();
}

template <class Source>
Config ForwardingAdapter<Source>::common_settings() const {
  return source_->common_settings();
}

template class ForwardingAdapter<BatchSource>;
template class ForwardingAdapter<Adapter>;

}  // namespace energon
