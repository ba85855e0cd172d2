// How deep states may nest: the limit of both forms, binary and JSON. Private to energon/state.

#pragma once

namespace energon {

inline constexpr int kMaxStateDepth = 64;

}  // namespace energon
