// Converts sample values to Torch tensors and back without copying memory.
//
// It is a separate target (energon::torch), because loading libtorch takes most of a second per
// process; tools that only move bytes do not need it.
//
// Note [Who may write]: the tensors point into the memory that a batch arrived in. The trainer may
// write to that memory (no two batches share a slot). But values of one batch may share a slot, and
// two tensors made from one value share their memory.

#pragma once

// With clang in C++20 mode, ATen's headers of libtorch 1.13 compile only after this header.
#include <ATen/core/ivalue.h>
//
#include <map>
#include <string>

#include <ATen/core/Tensor.h>

#include "energon/sample/sample.h"

namespace energon {

/// A contiguous CPU tensor over the memory of `tensor`, with the same shape and dtype. It keeps
/// that memory alive: a slot of shared memory returns to its worker when the last tensor over it is
/// destroyed. Thread-safe. Throws Error (kInvalidArgument) if size and shape disagree.
at::Tensor to_torch(const Tensor& tensor);

/// The bytes of a part as a uint8 tensor of shape (N,).
at::Tensor to_torch(const SharedBytes& bytes);

/// The tensors among the fields of a batch, by name; those inside a mapping as "mapping.field".
/// Other fields are left out.
std::map<std::string, at::Tensor> to_torch(const Sample& batch);

/// A Tensor over the memory of `tensor`, which must be on the CPU; a non-contiguous tensor is
/// copied. Throws Error (kInvalidArgument, kUnsupported) for other devices, layouts and dtypes.
Tensor from_torch(at::Tensor tensor);

}  // namespace energon
