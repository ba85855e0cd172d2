#include "wrappers/watch/transparent.h"

#include <nlohmann/json.hpp>

namespace energon {

Config Transparent::config() const { return inner_->config(); }

}  // namespace energon
