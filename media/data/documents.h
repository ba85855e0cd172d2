// Decodes data other than images, sound and video: text, JSON, MessagePack, CBOR, files of tensors
// (NumPy, safetensors, tenbin, torch.save), and gzip.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"
#include "io/bytes.h"
#include "media/decode_limits.h"
#include "media/tensor_decoder.h"

namespace energon {

// --- Text and decimal integers, as bytes.decode("utf-8") and int(bytes) read them in Python ---

/// Returns the bytes as a string. Keeps a byte order mark, as Python does. Thread-safe. Throws
/// Error (kCorruptData) with offset and value of the first byte that is not UTF-8.
std::string decode_text(ByteView encoded);

/// Reads an optional sign, and digits with single underscores between them; ASCII white space may
/// surround them. Thread-safe. Throws Error that quotes the text: kCorruptData if it is not a
/// decimal integer, kUnsupported if it is outside [-2^63, 2^63).
std::int64_t decode_integer(ByteView encoded);

// --- JSON, MessagePack and CBOR as a Value ---

/// JSON (RFC 8259).
///
/// null becomes Null, numbers without fraction and exponent int64, other numbers double, strings
/// std::string, arrays List, objects Mapping in file order. A duplicate name keeps its first
/// position and its last value, as in Python's json. A UTF-8 byte order mark is skipped.
///
/// Thread-safe. Throws Error with line, column (both from 1; columns count bytes) and byte (from
/// 0): kCorruptData for invalid JSON, kUnsupported for a number that fits neither int64 nor double,
/// kResourceExhausted above limits.max_depth or limits.max_bytes.
Value decode_json(ByteView encoded, const DecodeLimits& limits = {});

/// MessagePack: github.com/msgpack/msgpack/blob/master/spec.md.
///
/// Decodes one value. nil becomes Null, integers int64, floating-point numbers double, str
/// std::string, bin SharedBytes with memory of its own, array List, map Mapping in file order. A
/// duplicate name keeps its first position and its last value.
///
/// Thread-safe. Memory is bounded by the number of bytes present, whatever lengths they claim.
/// Throws Error with the byte offset: kCorruptData for damaged data, bytes after the value and
/// strings that are not UTF-8; kUnsupported for integers outside int64, names that are not strings,
/// and extension types, including timestamps; kResourceExhausted above limits.max_depth or
/// limits.max_bytes.
Value decode_msgpack(ByteView encoded, const DecodeLimits& limits = {});

/// CBOR (RFC 8949).
///
/// Decodes one item. null and undefined become Null, integers int64, floating-point numbers double,
/// text strings std::string, byte strings SharedBytes with memory of their own, arrays List, maps
/// Mapping in file order. A duplicate name keeps its first position and its last value. Tags are
/// ignored: a date is its string or number, a bignum its bytes. Items of indefinite length are
/// supported.
///
/// Thread-safe. Memory is bounded by the number of bytes present, whatever lengths they claim.
/// Throws Error with the byte offset: kCorruptData for damaged data, bytes after the item and
/// strings that are not UTF-8; kUnsupported for integers outside int64, names that are not strings,
/// and simple values other than false, true, null and undefined; kResourceExhausted above
/// limits.max_depth or limits.max_bytes.
Value decode_cbor(ByteView encoded, const DecodeLimits& limits = {});

// --- NumPy: .npy (numpy.lib.format, versions 1.0 to 3.0), and zips of them, .npz (numpy.savez) ---

/// Decodes an array into a row-major tensor of the same shape. bool, int8 to int64, uint8 and
/// float16 to float64 keep their type, uint16 becomes int32, uint32 becomes int64. Column-major and
/// big-endian arrays are converted.
///
/// Errors: kCorruptData also if bytes follow the array. kUnsupported for complex numbers, strings,
/// times, structured types, uint64, and objects: pickles are never read.
class NpyDecoder final : public TensorDecoder {
 public:
  explicit NpyDecoder(const DecodeLimits& limits = {}) : limits_(limits) {}

  TensorSpec probe(ByteView encoded) const override;
  void decode_into(ByteView encoded, std::span<std::byte> to) const override;

 private:
  const DecodeLimits limits_;
};

/// Returns the arrays of an npz by name (without ".npy"), in file order, as tensors in `memory`.
/// Members may be stored or deflated.
///
/// Thread-safe if `memory` is. Throws Error: as NpyDecoder, with the name of the array;
/// kCorruptData for a damaged zip, wrong checksums and duplicate names; kUnsupported for
/// encryption, other compression and members that are not arrays; kResourceExhausted if all members
/// together exceed limits.max_bytes.
Mapping decode_npz(ByteView encoded, const DecodeLimits& limits, BufferAllocator& memory);

/// Returns the bytes of a .npy file with `tensor`, row-major and little-endian. Throws Error
/// (kUnsupported) for bfloat16, which NumPy does not have.
std::string encode_npy(const Tensor& tensor);

// --- safetensors: github.com/huggingface/safetensors, section "Format" ---

/// Returns the tensors by name, in the order of the header. `__metadata__`, if present, is a
/// Mapping of strings under that name. BOOL, U8, I8 to I64, F16, BF16, F32 and F64 keep their type,
/// U16 becomes int32, U32 becomes int64.
///
/// Tensors that are stored aligned for their type are views, which keep the whole part in memory.
/// Others, and those whose type changes, are copied to `memory`.
///
/// Thread-safe if `memory` is. Throws Error: kCorruptData for a damaged header, and for tensors
/// that overlap, leave gaps, or whose size does not match their shape; kUnsupported, with the name
/// of the tensor, for other types; kResourceExhausted for a header above 100 MB, the limit of the
/// format's own library, and above `limits`.
Mapping decode_safetensors(const SharedBytes& encoded, const DecodeLimits& limits,
                           BufferAllocator& memory);

// --- tenbin of WebDataset, parts .ten and .tb: webdataset/tenbin.py ---

/// Returns the arrays in order, as tensors in `memory`. Info strings are dropped, as in WebDataset.
/// i1 to i8, u1 and f2 to f8 keep their type, u2 becomes int32, u4 becomes int64.
///
/// Uses at most twice the bytes of `encoded`. Thread-safe if `memory` is. Throws Error with the
/// byte offset: kCorruptData for damaged data, kUnsupported for other types.
List decode_tenbin(ByteView encoded, BufferAllocator& memory);

// --- torch.save, parts .pth and .pt: torch/serialization.py ---
//
// A zip with a pickle (data.pkl) and the bytes of the tensors.
//
// A pickle is a program. This reader implements only the opcodes and functions that torch.save uses
// for tensors and plain values, and refuses everything else: no code runs.

/// Tensors and parameters become tensors in `memory`, row-major whatever their strides were; a
/// tensor that occurs twice shares its memory. dict and OrderedDict become Mapping, whose keys must
/// be strings or integers (converted to decimal strings); list, tuple and torch.Size become List;
/// None, bool, int, float, str and bytes the corresponding Value.
///
/// Thread-safe if `memory` is. Throws Error: kCorruptData for a damaged file, such as a tensor that
/// exceeds its storage; kUnsupported for complex and other dtypes, for functions and classes that
/// are not supported (with module and name), TorchScript, big-endian files, and the format of
/// torch.save before 1.6, which is not a zip; kResourceExhausted above `limits`.
Value decode_torch_file(ByteView encoded, const DecodeLimits& limits, BufferAllocator& memory);

// --- gzip (RFC 1952), through zlib ---

/// Returns the expanded content, in `memory`, of one member or several consecutive ones. Zeros may
/// follow, as padding on tapes, as gzip(1) and Python allow.
///
/// Thread-safe if `memory` is. Throws Error with the byte offset: kCorruptData for a wrong checksum
/// or length, truncated data and any other trailing bytes; kResourceExhausted above
/// limits.max_bytes, before more is expanded.
SharedBytes expand_gzip(ByteView encoded, const DecodeLimits& limits, BufferAllocator& memory);

}  // namespace energon
