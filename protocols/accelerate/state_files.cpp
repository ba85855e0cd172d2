#include "protocols/accelerate/state_files.h"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "energon/checkpoint/state_forms.h"
#include "io/byte_codec.h"
#include "io/bytes.h"
#include "io/error.h"
#include "io/file.h"
#include "io/hash.h"

namespace energon {
namespace {

constexpr std::string_view kMagic = "ENRGNADP";
constexpr std::uint32_t kVersion = 1;
constexpr std::uint64_t kLongestFile = std::uint64_t{4} << 30;

}  // namespace

std::string state_file_name(std::size_t loader, int rank) {
  const std::string place = loader == 0 ? std::string() : fmt::format("_{}", loader);
  const std::string of_rank = rank == 0 ? std::string() : fmt::format(".rank{}", rank);
  return fmt::format("dl_state_dict{}{}.bin", place, of_rank);
}

std::string encode_state_file(const SavableDataLoaderState& state, std::size_t loader, int rank) {
  ByteWriter writer;
  writer.raw(kMagic);
  writer.u32(kVersion);
  writer.u32(static_cast<std::uint32_t>(loader));
  writer.u32(static_cast<std::uint32_t>(rank));
  writer.text(encode_state(to_tree(state)));
  writer.u64(xxh3_64(as_bytes(writer.bytes())));
  return writer.take();
}

SavableDataLoaderState decode_state_file(std::string_view bytes, std::size_t loader, int rank) {
  ByteReader reader(bytes, "the state file");
  if (bytes.size() < kMagic.size() + 3 * sizeof(std::uint32_t) ||
      reader.raw(kMagic.size()) != kMagic) {
    reader.fail("not a state file of an adapter");
  }
  if (const std::uint32_t version = reader.u32(); version != kVersion) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the state file has version {}, but this library reads version {}",
                            version, kVersion));
  }
  const std::uint32_t of_loader = reader.u32();
  const std::uint32_t of_rank = reader.u32();
  const std::string_view encoded = reader.text();
  const std::uint64_t expected = xxh3_64(as_bytes(bytes.substr(0, reader.position())));
  if (reader.u64() != expected) {
    reader.fail("the checksum does not match the content");
  }
  reader.finish();
  if (of_loader != loader || of_rank != static_cast<std::uint32_t>(rank)) {
    throw Error(
        ErrorCode::kMismatch,
        fmt::format("the state belongs to loader {} on rank {}, expected loader {} on rank {}",
                    of_loader, of_rank, loader, rank));
  }
  return from_tree(decode_state(encoded));
}

void save_states(const std::string& folder, std::span<BatchSource* const> loaders, int rank) {
  for (std::size_t i = 0; i < loaders.size(); ++i) {
    write_file_atomically(fmt::format("{}/{}", folder, state_file_name(i, rank)),
                          as_bytes(encode_state_file(loaders[i]->save_state_rank(), i, rank)));
  }
}

std::vector<std::string> restore_states(const std::string& folder,
                                        std::span<BatchSource* const> loaders, int rank) {
  std::vector<std::string> missing;
  std::vector<std::optional<SavableDataLoaderState>> states;
  states.reserve(loaders.size());
  for (std::size_t i = 0; i < loaders.size(); ++i) {
    const std::string name = state_file_name(i, rank);
    const std::string path = fmt::format("{}/{}", folder, name);
    states.emplace_back();
    try {
      states.back() = decode_state_file(read_file(path, kLongestFile), i, rank);
    } catch (Error& error) {
      if (error.code() != ErrorCode::kNotFound) {
        error.with({.path = path});
        throw;
      }
      missing.push_back(name);
    }
  }
  for (std::size_t i = 0; i < loaders.size(); ++i) {
    if (states[i]) {
      stop_and_restore(*loaders[i], *states[i]);
    }
  }
  return missing;
}

}  // namespace energon
