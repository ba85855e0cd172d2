#include "energon/distributed/forwarding_adapter.h"

#include <nlohmann/json.hpp>

namespace energon {

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
