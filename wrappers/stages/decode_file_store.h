// A file store that returns images, strings, arrays and so on instead of bytes. In Energon:
// DecodeFileStore.

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"
#include "io/store/file_store.h"
#include "media/decode/sample_decoder.h"

namespace energon {

/// One file, decoded.
struct DecodedFile {
  Value value;         ///< the result of SampleDecoder::decode_part()
  FileStoreItem file;  ///< as stored, with its source
};

/// Opens the inner store at the first get(), in the process that calls it. Not thread-safe.
class DecodeFileStore {
 public:
  /// Throws Error (kInvalidArgument) without an inner store, and for an unknown image mode.
  explicit DecodeFileStore(std::unique_ptr<FileStore> inner, SampleDecoderOptions options = {});

  /// The file `name`, decoded according to the suffix after its last dot; tensors are stored in
  /// `memory`. Throws Error as FileStore::get() and as SampleDecoder::decode_part(), with the store
  /// as path and the name as sample. A random transform draws from `rng`.
  DecodedFile get(std::string_view name, BufferAllocator& memory = heap_memory(),
                  CallRng* rng = nullptr);

  /// The metadata from the inner store.
  std::optional<MediaMetadata> get_media_metadata(std::string_view name);
  const std::string& path() const { return inner_->path(); }

 private:
  const std::unique_ptr<FileStore> inner_;
  const SampleDecoder decoder_;
};

}  // namespace energon
