#include "wrappers/stages/decode_file_store.h"

#include <utility>

#include "io/error.h"

namespace energon {
namespace {

std::unique_ptr<FileStore> not_null(std::unique_ptr<FileStore> store) {
  if (store == nullptr) {
    throw Error(ErrorCode::kInvalidArgument, "a DecodeFileStore needs an inner store");
  }
  return store;
}

}  // namespace

DecodeFileStore::DecodeFileStore(std::unique_ptr<FileStore> inner, SampleDecoderOptions options)
    : inner_(not_null(std::move(inner))), decoder_(std::move(options)) {}

DecodedFile DecodeFileStore::get(std::string_view name, BufferAllocator& memory, CallRng* rng) {
  FileStoreItem file = inner_->get(name);
  try {
    Value value = decoder_.decode_part(name, file.bytes, memory, rng);
    return {.value = std::move(value), .file = std::move(file)};
  } catch (Error& error) {
    throw error.with({.path = path(), .sample_key = std::string(name)});
  }
}

std::optional<MediaMetadata> DecodeFileStore::get_media_metadata(std::string_view name) {
  return inner_->get_media_metadata(name);
}

}  // namespace energon
