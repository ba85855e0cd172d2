#include "tests/energon/megatron/energon_trees.h"

#include <array>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "energon/order/rng.h"
#include "energon/sample/sample_ref.h"
#include "io/json.h"

namespace energon::testing {
namespace {

constexpr std::size_t kWords = 624;
using Words = std::array<std::uint32_t, kWords>;

Words seeded(std::uint32_t seed) {
  Words words{};
  words[0] = seed;
  for (std::uint32_t i = 1; i < kWords; ++i) {
    words[i] = 1812433253U * (words[i - 1] ^ (words[i - 1] >> 30)) + i;
  }
  return words;
}

void renew(Words& words) {
  for (std::size_t i = 0; i < kWords; ++i) {
    const std::uint32_t mixed = (words[i] & 0x80000000U) | (words[(i + 1) % kWords] & 0x7FFFFFFFU);
    words[i] = words[(i + 397) % kWords] ^ (mixed >> 1) ^ ((mixed & 1U) != 0 ? 0x9908B0DFU : 0U);
  }
}

template <class Number>
void append(std::string& bytes, Number number) {
  std::array<char, sizeof(number)> copy{};
  std::memcpy(copy.data(), &number, sizeof(number));
  bytes.append(copy.data(), copy.size());
}

Json generator(const std::string& saved) {
  std::uint32_t seed = 0;
  std::uint64_t draws = 0;
  std::istringstream(saved) >> seed >> draws;
  return {{"rng", {{"base64", to_base64(torch_generator(seed, draws))}}}};
}

// The remaining slices, the next one last, when `opened` of them were opened. With replacement,
// there are none, because each is drawn when it is opened.
Json pending(const State& own, std::int64_t slices, std::int64_t opened) {
  WorkerRng rng(0);
  rng.restore(own.bytes("epoch_rng"));
  const std::vector<std::int64_t> list = rng.permutation(slices);
  return opened > slices ? Json::array()
                         : Json(std::vector<std::int64_t>(list.rbegin(), list.rend() - opened));
}

Json leaf(const State& own, std::int64_t slices) {
  const bool has_begun = own.integer("epoch_started") != 0;
  const std::int64_t opened = own.integer("pending_offset");
  Json places = Json::array();
  const std::vector<std::int64_t>& open = own.integers("open");
  for (std::size_t i = 0; i < open.size(); i += 2) {
    places.push_back(open[i] < 0 ? Json() : Json{{"index", open[i]}, {"current", open[i + 1]}});
  }
  return {{"__class__", "WebdatasetSampleLoaderDataset"},
          {"_worker_rng", generator(own.bytes("rng"))},
          {"_pending_slices_offset", has_begun ? Json(opened) : Json()},
          // The last one comes next.
          {"_pending_slice_indexes", has_begun ? pending(own, slices, opened) : Json()},
          {"_active_slice_state", places},
          {"_sample_count", own.integer("sample_count")},
          {"_epoch_count", own.integer("epoch")},
          {"_epoch_sample_count", own.integer("epoch_sample_count")}};
}

Json buffer(const State& own) {
  Json keys = Json::array();
  for (const SampleRef& ref : unpack_sample_refs(own.bytes("references"), 1000)) {
    keys.push_back({"MapDataset", 5, "Webdataset", ref.index});
  }
  return {{"__class__", "SavableSampleBuffer"}, {"_restore_keys", keys}};
}

Json tree(const State& own, std::int64_t slices) {
  if (own.type == "SliceOrder") {
    return leaf(own, slices);
  }
  const Json inner = tree(own.children.at(0), slices);
  if (own.type == "ReadSamples") {
    return inner;
  }
  Json node = {{"datasets", Json::array({inner})}};
  if (own.type == "Batch") {
    node["__class__"] = "BatchDataset";
    node["_sample_index"] = own.integer("batches");
  } else if (own.type == "Map") {
    node["__class__"] = "MapDataset";
    node["_sample_index"] = own.integer("calls");
  } else if (own.type == "ShuffleBuffer") {
    node["__class__"] = "ShuffleBufferDataset";
    node["_active_buffer"] = buffer(own);
    node["_worker_rng"] = generator(own.bytes("rng"));
  } else if (own.type == "Repeat") {
    node["__class__"] = "RepeatDataset";
    node["_repetition"] = own.integer("repetition");
    node["_index"] = own.integer("taken");
  } else if (own.type == "Epochize") {
    node["__class__"] = "EpochizeDataset";
    node["_offset"] = own.integer("offset");
  } else {
    throw std::logic_error("Energon has no node for " + own.type);
  }
  return node;
}

}  // namespace

std::string torch_generator(std::uint32_t seed, std::uint64_t draws) {
  Words words = seeded(seed);
  std::uint64_t next = 0;
  std::int32_t left = 1;
  for (std::uint64_t i = 0; i < draws; ++i) {
    if (--left == 0) {
      renew(words);
      left = kWords;
      next = 0;
    }
    ++next;
  }
  std::string bytes;
  append(bytes, std::uint64_t{seed});
  append(bytes, left);
  append(bytes, std::int32_t{1});
  append(bytes, next);
  for (const std::uint32_t word : words) {
    append(bytes, std::uint64_t{word});
  }
  bytes.resize(5056, '\0');
  return bytes;
}

Json energon_rank(const SavableDataLoaderState& state, const std::vector<std::int64_t>& slices,
                  bool has_workers) {
  Json workers = Json::array();
  for (std::size_t i = 0; i < state.checkpoints.size(); ++i) {
    const SavableDatasetCheckpoint& stream = state.checkpoints[i];
    const Json own = stream.state ? tree(*stream.state, slices.at(i)) : Json();
    workers.push_back({{"sample_index", stream.index}, {"offset", stream.offset}, {"state", own}});
  }
  return {{"next_worker_id", state.next_worker_id},
          {"micro_batch_size", state.micro_batch_size ? Json(*state.micro_batch_size) : Json()},
          {"has_workers", has_workers},
          {"workers", workers}};
}

EnergonRankState parsed(const Json& rank) { return energon_rank_state(rank, "rank.pt"); }

Json& holder_of(Json& json, const std::string& name) {
  if (json.is_object() && json.contains(name)) {
    return json;
  }
  for (Json& inner : json) {
    if (inner.is_structured()) {
      try {
        return holder_of(inner, name);
      } catch (const std::out_of_range&) {
        continue;
      }
    }
  }
  throw std::out_of_range("no entry " + name);
}

}  // namespace energon::testing
