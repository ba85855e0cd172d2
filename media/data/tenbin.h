// Lists of arrays in the tenbin format of WebDataset, parts .ten and .tb: webdataset/tenbin.py.
//
//   chunk   "~TenBin~", length (int64), that many bytes, filled up to a multiple of 64
//   array   a header chunk and a data chunk
//   header  8 bytes each: NumPy's code of the type ("f4"), a text, the number of dimensions, each
//           dimension (int64)
//
// Numbers are little-endian.

#pragma once

#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"
#include "io/bytes.h"

namespace energon {

/// The arrays in order, as tensors in `memory`. Their texts are left out, as WebDataset does. i1 to
/// i8, u1 and f2 to f8 keep their type, u2 becomes int32, u4 becomes int64.
///
/// Takes at most twice the bytes of `encoded`. Thread-safe if `memory` is. Throws Error with the
/// byte offset: kCorruptData for damaged data, kUnsupported for other types.
List decode_tenbin(ByteView encoded, BufferAllocator& memory);

}  // namespace energon
