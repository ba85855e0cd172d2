#include "energon/megatron/energon_leaf.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/order/rng.h"
#include "io/byte_codec.h"
#include "io/error.h"
#include "io/json.h"

namespace energon {

// --- Generators ---

namespace {

// CPUGeneratorImplState of torch: the seed (u64), draws left before the words are renewed (i32),
// whether it is seeded (i32), the next word (u64), 624 words of 64 bits, then what normal
// distributions keep.
constexpr std::size_t kTorchBytes = 5056;
constexpr std::string_view kWhat = "the state of a generator";
constexpr std::uint32_t kWords = 624;
constexpr int kCompared = 20;  // number of draws that distinguish two positions
constexpr std::uint64_t kDrawsPerCheck = std::uint64_t{1} << 20;

Mt19937 restored(const std::string& state) {
  Mt19937 generator(0);
  generator.restore(state);
  return generator;
}

bool draws_the_same(Mt19937 one, Mt19937 other) {
  for (int i = 0; i < kCompared; ++i) {
    if (one() != other()) {
      return false;
    }
  }
  return true;
}

void skip(Mt19937& generator, std::uint64_t draws,
          const std::function<void()>& check_cancelled = {}) {
  for (std::uint64_t i = 0; i < draws; ++i) {
    if (check_cancelled && i % kDrawsPerCheck == 0) {
      check_cancelled();
    }
    generator();
  }
}

}  // namespace

EnergonGenerator::EnergonGenerator(std::string_view bytes) {
  if (bytes.size() != kTorchBytes) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("the state of a generator has {} bytes, expected {} as in torch",
                            bytes.size(), kTorchBytes));
  }
  ByteReader reader(bytes, kWhat);
  seed_ = reader.u64();
  const auto left = static_cast<std::int32_t>(reader.u32());
  reader.u32();  // whether it is seeded
  const std::uint64_t next = reader.u64();
  // 1 means that all words are used: the next draw renews them.
  const bool is_used_up = left == 1;
  if (!is_used_up &&
      (next > kWords || left < 1 || next + static_cast<std::uint64_t>(left) != kWords + 1)) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("the state of a generator has {} words left after word {} of {}", left,
                            next, kWords));
  }
  ByteWriter words;
  words.u32(is_used_up ? kWords : static_cast<std::uint32_t>(next));
  for (std::uint32_t i = 0; i < kWords; ++i) {
    words.u32(static_cast<std::uint32_t>(reader.u64()));
  }
  words_ = words.take();
}

std::string EnergonGenerator::state() const {
  const std::uint32_t position = ByteReader(words_, kWhat).u32();
  const Mt19937 wanted = restored(words_);
  Mt19937 generator(static_cast<std::uint32_t>(seed_));
  if (draws_the_same(generator, wanted)) {
    return generator.save();
  }
  // Later positions are a multiple of the words apart.
  skip(generator, position);
  for (std::uint64_t draws = position; draws <= Mt19937::kMostRepeated; draws += kWords) {
    if (draws_the_same(generator, wanted)) {
      return generator.save();
    }
    skip(generator, kWords);
  }
  return words_;
}

bool EnergonGenerator::has_drawn(std::uint64_t draws,
                                 const std::function<void()>& check_cancelled) const {
  Mt19937 generator(static_cast<std::uint32_t>(seed_));
  skip(generator, draws, check_cancelled);
  return draws_the_same(generator, restored(words_));
}

std::string generator_after(std::uint32_t seed, std::uint64_t draws,
                            const std::function<void()>& check_cancelled) {
  Mt19937 generator(seed);
  skip(generator, draws, check_cancelled);
  return generator.save();
}

// --- Fields ---

void set_field(State& state, std::string_view name, StateValue value) {
  const auto found = std::find_if(state.fields.begin(), state.fields.end(),
                                  [name](const auto& field) { return field.first == name; });
  if (found == state.fields.end()) {
    throw Error(ErrorCode::kInternal, fmt::format("{} has no field {}", state.type, name));
  }
  found->second = std::move(value);
}

// --- Leaves ---

namespace {

constexpr std::int64_t kMostCounted = std::int64_t{1} << 40;  // more than a worker reads
// Allowance for empty slices in the data.
constexpr std::int64_t kMostEmptySlices = 1 << 20;

// A leaf of Energon, in numbers.
struct LeafFields {
  bool has_begun = false;
  std::int64_t opened = 0;
  std::vector<std::int64_t> pending;  // remaining slices, in order
  std::vector<std::int64_t> open;     // slice and cursor of each place; -1, 0 if empty
  std::int64_t epochs = 0;
  std::int64_t samples = 0;
  std::int64_t epoch_samples = 0;
};

std::int64_t count_up_to(const EnergonNode& node, std::string_view name, std::int64_t most) {
  const JsonReader field = node.field(name);
  if (field.count() > most) {
    field.fail(fmt::format("expected at most {}, which no worker exceeds", most));
  }
  return field.count();
}

LeafFields read_fields(const EnergonNode& node) {
  LeafFields leaf;
  const JsonReader opened = node.field("_pending_slices_offset");
  leaf.has_begun = !opened.is_null();
  if (leaf.has_begun) {
    leaf.opened = opened.count();
    leaf.pending = node.field("_pending_slice_indexes").integers();
    std::reverse(leaf.pending.begin(), leaf.pending.end());
  }
  for (const JsonReader& place : node.field("_active_slice_state").elements()) {
    leaf.open.push_back(place.is_null() ? -1 : place.member("index").count());
    leaf.open.push_back(place.is_null() ? 0 : place.member("current").count());
  }
  leaf.epochs = count_up_to(node, "_epoch_count", kMostCounted);
  leaf.samples = count_up_to(node, "_sample_count", kMostCounted);
  leaf.epoch_samples = node.count("_epoch_sample_count");
  if (leaf.epoch_samples > leaf.samples) {
    node.field("_epoch_sample_count")
        .fail(fmt::format("expected at most _sample_count, {}", leaf.samples));
  }
  return leaf;
}

// The draws of a leaf that reshuffles its list of slices in each epoch.
class LeafDraws {
 public:
  explicit LeafDraws(const LeafFields& leaf)
      : slices_(leaf.opened + std::ssize(leaf.pending)),
        list_(std::max<std::int64_t>(slices_ - 1, 0)),
        for_each_sample_(leaf.open.size() > 2 ? 1 : 0),
        before_(leaf.epochs * list_ + for_each_sample_ * (leaf.samples - leaf.epoch_samples)),
        now_(before_ + list_ + for_each_sample_ * leaf.epoch_samples) {}

  std::int64_t slices() const { return slices_; }  // in the list of the epoch
  std::uint64_t before_epoch() const { return static_cast<std::uint64_t>(before_); }
  std::uint64_t now() const { return static_cast<std::uint64_t>(now_); }

 private:
  const std::int64_t slices_;
  const std::int64_t list_;
  const std::int64_t for_each_sample_;
  const std::int64_t before_;
  const std::int64_t now_;
};

// The list of an epoch is drawn again: it cannot be longer than the data allows, and the number of
// its draws must be bounded.
void check_slices(const EnergonNode& node, const LeafFields& leaf, std::int64_t samples,
                  std::int64_t epochs) {
  const std::int64_t most = epochs > kMostCounted / std::max<std::int64_t>(samples, 1)
                                ? kMostCounted
                                : samples * epochs + kMostEmptySlices;
  const std::int64_t pending = std::ssize(leaf.pending);
  if (leaf.opened > most || leaf.epochs > kMostCounted / (leaf.opened + pending + 1)) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("{}: Energon has opened {} slices after {} epochs, this job has {} "
                            "samples; {}",
                            node.path(), leaf.opened, leaf.epochs, samples, kOtherOrder));
  }
}

// The generator at the beginning of the epoch. Energon keeps only the list that it drew, so this
// compares the list, and the result of the draws since then.
std::string generator_of_epoch(const EnergonNode& node, const LeafFields& leaf,
                               const EnergonGenerator& generator, std::int64_t epochs,
                               const std::function<void()>& check_cancelled) {
  const LeafDraws draws(leaf);
  std::string before = generator_after(static_cast<std::uint32_t>(generator.seed()),
                                       draws.before_epoch(), check_cancelled);
  WorkerRng rng(0);
  rng.restore(before);
  std::vector<std::int64_t> list = rng.permutation(draws.slices());
  list.erase(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(leaf.opened));
  const std::int64_t slices = std::max<std::int64_t>(draws.slices() / epochs, 1);
  for (std::int64_t& slice : list) {
    slice %= slices;
  }
  if (list != leaf.pending || !generator.has_drawn(draws.now(), check_cancelled)) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("{}: after {} samples of {} slices, Energon's generator is at another "
                            "position; {}",
                            node.path(), leaf.samples, draws.slices(), kOtherOrder));
  }
  return before;
}

std::int64_t epochs_in(const std::string& shuffle_over_epochs) {
  std::int64_t epochs = 1;
  const char* const text = shuffle_over_epochs.data();
  std::from_chars(text, text + shuffle_over_epochs.size(), epochs);
  return std::max<std::int64_t>(epochs, 1);
}

}  // namespace

EnergonGenerator read_energon_generator(const EnergonNode& node, std::uint32_t seed) {
  const JsonReader field = node.field("_worker_rng").member("rng").member("base64");
  const std::optional<std::string> bytes = from_base64(field.text());
  if (!bytes) {
    field.fail("expected base64");
  }
  EnergonGenerator generator(*bytes);
  if (generator.seed() != seed) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("{}: the generator was made from the seed {}, expected {} for this "
                            "worker; check the seed offset, the number of ranks and of workers, "
                            "and the order of the files",
                            field.path(), generator.seed(), seed));
  }
  return generator;
}

State translate_energon_leaf(const State& start, const Config& config, const EnergonNode& node,
                             bool is_over, const std::function<void()>& check_cancelled) {
  const LeafFields leaf = read_fields(node);
  const std::size_t places = start.integers("open").size();
  if (leaf.open.size() != places) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("{}: Energon has {} slices open at a time, this job {}; {}",
                            node.path(), leaf.open.size() / 2, places / 2, kOtherOrder));
  }
  const auto seed = config.at("seed").get<std::uint32_t>();
  const EnergonGenerator generator = read_energon_generator(node, seed);
  const std::string shuffle = config.at("shuffle_over_epochs").get<std::string>();
  State state = start;
  std::string now = generator.state();
  std::string before = now;
  if (leaf.has_begun && shuffle == "-1") {
    before = generator_after(seed, 0);  // its only epoch
  } else if (leaf.has_begun && shuffle != "none") {
    const std::int64_t epochs = epochs_in(shuffle);
    check_slices(node, leaf, config.at("samples").get<std::int64_t>(), epochs);
    before = generator_of_epoch(node, leaf, generator, epochs, check_cancelled);
  }
  set_field(state, "epoch_rng", std::move(before));
  set_field(state, "rng", std::move(now));
  set_field(state, "epoch_started", std::int64_t{leaf.has_begun});
  set_field(state, "pending_offset", leaf.opened);
  set_field(state, "open", leaf.open);
  set_field(state, "epoch", leaf.epochs - (is_over && leaf.epochs > 0 && !leaf.has_begun ? 1 : 0));
  set_field(state, "sample_count", leaf.samples);
  set_field(state, "epoch_sample_count", leaf.epoch_samples);
  return state;
}

}  // namespace energon
