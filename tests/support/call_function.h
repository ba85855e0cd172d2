// Calls functions of a pipeline outside of one.

#pragma once

#include <span>
#include <utility>

#include "energon/sample/restore_key.h"
#include "energon/sample/sample.h"
#include "energon/stage/call_context.h"

namespace energon::testing {

/// Calls `function(values, context)` with its own context: the heap, and an empty key.
template <class Function, class Values>
auto call_function(const Function& function, Values&& values) {
  const CallResources resources;
  const RestoreKey key;
  CallContext context(resources, key, 0);
  return function(std::forward<Values>(values), context);
}

}  // namespace energon::testing
