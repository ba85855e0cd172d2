// Torch tensors over the memory of samples, and back, without a copy.
//
// A target of its own (energon::torch), because loading libtorch costs most of a second per
// process: tools that only move bytes do without.
//
// Note [Who may write]: the tensors view memory that a batch arrived in. The trainer may write to
// it (each batch has its slot to itself), but values of one batch may share a slot, and two tensors
// made of one value share their memory.

#pragma once

// Under clang in C++20 mode, ATen's headers of libtorch 1.13 compile only after this one.
#include <ATen/core/ivalue.h>
//
#include <map>
#include <string>

#include <ATen/core/Tensor.h>

#include "energon/sample/sample.h"

namespace energon {

/// A CPU tensor over `tensor`: same shape and dtype, contiguous. It keeps the memory: a slot of
/// shared memory returns to its worker when the last tensor over it dies. Thread-safe. Throws Error
/// (kInvalidArgument) if size and shape disagree.
at::Tensor to_torch(const Tensor& tensor);

/// The bytes of a part as a uint8 tensor of shape (N,).
at::Tensor to_torch(const SharedBytes& bytes);

/// The fields of a batch that are tensors, by name, those of mappings as "mapping.field". Other
/// fields are not in it.
std::map<std::string, at::Tensor> to_torch(const Sample& batch);

/// A Tensor over `tensor`, which must be on the CPU; a tensor that is not contiguous is copied.
/// Throws Error (kInvalidArgument, kUnsupported) for other devices, layouts and dtypes.
Tensor from_torch(at::Tensor tensor);

}  // namespace energon
