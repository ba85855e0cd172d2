// Files of tensors: arrays of NumPy, safetensors, tenbin, and what torch.save wrote.

#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"
#include "io/bytes.h"
#include "media/decode_limits.h"
#include "media/tensor_decoder.h"

namespace energon {

// --- NumPy: .npy (numpy.lib.format, versions 1.0 to 3.0), and zips of them, .npz (numpy.savez) ---

/// Gives a tensor of the shape of the array, row-major. bool, int8 to int64, uint8 and float16 to
/// float64 keep their type, uint16 becomes int32, uint32 becomes int64. Column-major and big-endian
/// arrays are converted.
///
/// Errors: kCorruptData also if bytes follow the array. kUnsupported for complex numbers, texts,
/// times, structures, 64-bit unsigned integers, and objects: pickles are never read.
class NpyDecoder final : public TensorDecoder {
 public:
  explicit NpyDecoder(const DecodeLimits& limits = {}) : limits_(limits) {}

  TensorSpec probe(ByteView encoded) const override;
  void decode_into(ByteView encoded, std::span<std::byte> to) const override;

 private:
  const DecodeLimits limits_;
};

/// The arrays of an npz by name (without ".npy"), in the order of the file. Tensors lie in
/// `memory`. Members may be stored or deflated.
///
/// Thread-safe if `memory` is. Throws Error: as NpyDecoder, with the name of the array;
/// kCorruptData for a damaged zip, wrong checksums and names that come twice; kUnsupported for
/// encryption, other compression and members that are no arrays; kResourceExhausted if all members
/// together are above limits.max_bytes.
Mapping decode_npz(ByteView encoded, const DecodeLimits& limits, BufferAllocator& memory);

/// The bytes of a .npy file with `tensor`, row-major and little-endian. Throws Error
/// (kUnsupported) for bfloat16, which NumPy does not have.
std::string encode_npy(const Tensor& tensor);

// --- safetensors: github.com/huggingface/safetensors, section "Format" ---

/// The tensors by name, in the order of the header. `__metadata__`, if there, is a Mapping of texts
/// under that name. BOOL, U8, I8 to I64, F16, BF16, F32 and F64 keep their type, U16 becomes int32,
/// U32 becomes int64.
///
/// Tensors that lie aligned for their type are views that keep the whole part in memory; others,
/// and those whose type changes, are copies in `memory`.
///
/// Thread-safe if `memory` is. Throws Error: kCorruptData for a damaged header, and for tensors
/// that overlap, leave holes, or do not have the bytes of their shape; kUnsupported, with the name
/// of the tensor, for other types; kResourceExhausted for a header above 100 MB, as in the format's
/// own library, and above limits.
Mapping decode_safetensors(const SharedBytes& encoded, const DecodeLimits& limits,
                           BufferAllocator& memory);

// --- tenbin of WebDataset, parts .ten and .tb: webdataset/tenbin.py ---

/// The arrays in order, as tensors in `memory`. Their texts are left out, as WebDataset does. i1 to
/// i8, u1 and f2 to f8 keep their type, u2 becomes int32, u4 becomes int64.
///
/// Takes at most twice the bytes of `encoded`. Thread-safe if `memory` is. Throws Error with the
/// byte offset: kCorruptData for damaged data, kUnsupported for other types.
List decode_tenbin(ByteView encoded, BufferAllocator& memory);

// --- torch.save, parts .pth and .pt: torch/serialization.py ---
//
// A zip with a pickle (data.pkl) and the bytes of the tensors.
//
// A pickle is a program. This reader knows the few instructions and functions that torch.save
// writes for tensors and plain values, all written here, and refuses everything else: no code runs.

/// Tensors and parameters become tensors in `memory`, row-major whatever their strides were; one
/// that occurs twice shares its memory. dict and OrderedDict become Mapping, whose keys must be
/// texts or integers (which become decimal texts); list, tuple and torch.Size List; None, bool,
/// int, float, str and bytes the like.
///
/// Thread-safe if `memory` is. Throws Error: kCorruptData for a damaged file, such as a tensor that
/// leaves its storage; kUnsupported for complex and other dtypes, for functions and classes off the
/// list (with module and name), TorchScript, big-endian files, and the form of torch.save before
/// 1.6, which is no zip; kResourceExhausted above limits.
Value decode_torch_file(ByteView encoded, const DecodeLimits& limits, BufferAllocator& memory);

}  // namespace energon
