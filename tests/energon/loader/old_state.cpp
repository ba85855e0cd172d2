#include "tests/energon/loader/old_state.h"

#include <algorithm>
#include <bit>
#include <random>
#include <sstream>
#include <string_view>
#include <vector>

#include "energon/checkpoint/state_config.h"
#include "energon/sample/sample_ref.h"
#include "energon/state/byte_codec.h"
#include "io/bytes.h"
#include "io/hash.h"

namespace energon::testing {
namespace {

constexpr std::size_t kWordBytes = 2500;

// By the standard's generator, which is not ours.
std::string generator_words(const std::string& saved) {
  if (saved.size() == kWordBytes) {
    return saved;
  }
  std::istringstream numbers(saved);
  std::uint32_t seed = 0;
  unsigned long long draws = 0;
  numbers >> seed >> draws;
  std::mt19937 generator(seed);
  generator.discard(draws);
  std::stringstream text;
  text << generator;
  std::vector<std::uint32_t> words(kWordBytes / 4);
  for (std::size_t i = 1; i < words.size(); ++i) {
    text >> words[i];
  }
  text >> words[0];
  return {reinterpret_cast<const char*>(words.data()), kWordBytes};
}

std::string references_in_bytes(const std::string& saved) {
  const std::vector<SampleRef> refs = unpack_sample_refs(saved, 1 << 20);
  SampleRef most;
  for (const SampleRef& ref : refs) {
    most = {std::max(most.index, ref.index), std::max(most.leaf, ref.leaf),
            std::max(most.repetition, ref.repetition)};
  }
  const auto width = [](std::uint64_t number) {
    return static_cast<std::uint8_t>((std::bit_width(number) + 7) / 8);
  };
  const std::uint8_t widths[] = {width(static_cast<std::uint64_t>(most.index)), width(most.leaf),
                                 width(most.repetition)};
  ByteWriter writer;
  writer.raw(widths, 3);
  writer.u64(refs.size());
  for (const SampleRef& ref : refs) {
    writer.raw(&ref.index, widths[0]);
    writer.raw(&ref.leaf, widths[1]);
    writer.raw(&ref.repetition, widths[2]);
  }
  return writer.take();
}

}  // namespace

State in_old_form(const State& state) {
  State old = state;
  for (auto& [name, value] : old.fields) {
    if (name == "rng" || name == "epoch_rng") {
      value = generator_words(std::get<std::string>(value));
    } else if (name == "references") {
      value = references_in_bytes(std::get<std::string>(value));
    }
  }
  for (State& child : old.children) {
    child = in_old_form(child);
  }
  return old;
}

std::string encode_old_file(const SavableDataLoaderState& state) {
  ByteWriter body;
  body.u8(1);
  body.text(dump_config(state.config));
  body.u32(1);
  body.i64(state.next_worker_id);
  body.i64(state.epoch);
  body.u8(state.epoch_finished ? 1 : 0);
  body.i64(state.batch_index);
  body.i64(state.step_in_epoch.value_or(-1));
  body.i64(state.micro_batch_size.value_or(0));
  body.u32(static_cast<std::uint32_t>(state.streams.size()));
  for (SavableDatasetCheckpoint shard : state.streams) {
    body.u32(static_cast<std::uint32_t>(shard.logical_shard));
    body.i64(shard.turn.epoch);
    body.i64(shard.turn.count);
    body.u64(shard.certificate.digest);
    body.i64(shard.certificate.samples);
    if (shard.state) {
      shard.state = in_old_form(*shard.state);
    }
    encode_checkpoint(body, shard);
  }
  if (!state.adapters.empty()) {
    body.u32(static_cast<std::uint32_t>(state.adapters.size()));
    for (const State& adapter : state.adapters) {
      body.text(encode_state(adapter));
    }
  }
  ByteWriter file;
  file.raw("ENRGNCKP", 8);
  file.u32(state.adapters.empty() ? 2 : 3);
  file.u64(body.bytes().size());
  file.raw(body.bytes().data(), body.bytes().size());
  file.u64(xxh3_64(as_bytes(file.bytes())));
  return file.take();
}

}  // namespace energon::testing
