// Linked beside main.cpp where the package has torch: before main(), a tensor goes to torch and
// back.

#include <cstdlib>

#include <ATen/ops/arange.h>

#include "energon/torch/tensor.h"

namespace {

const bool is_checked = [] {
  const at::Tensor tensor = at::arange(3);
  if (!energon::to_torch(energon::from_torch(tensor)).equal(tensor)) {
    std::abort();
  }
  return true;
}();

}  // namespace
