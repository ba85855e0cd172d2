#include "energon/worker/work_note.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/error.h"

namespace energon {
namespace {

static_assert(sizeof(WorkNote) == 1064);

constexpr std::size_t kWord = sizeof(std::uint64_t);

// Release: who sees a word also sees the odd sequence before it.
void store(std::atomic<std::uint64_t>& word, std::uint64_t value) {
  word.store(value, std::memory_order_release);
}

// Acquire: pairs with store(), so that a changed sequence is seen after a changed word.
std::uint64_t load(const std::atomic<std::uint64_t>& word) {
  return word.load(std::memory_order_acquire);
}

// Appends `piece` at `size` and returns the size after it.
template <std::size_t kWords>
std::size_t append(NotedText<kWords>& text, std::size_t size, std::string_view piece) {
  piece = piece.substr(0, kWords * kWord - size);
  while (!piece.empty()) {
    const std::size_t begin = size % kWord;
    const std::size_t count = std::min(kWord - begin, piece.size());
    std::uint64_t word =
        begin == 0 ? 0 : text.words[size / kWord].load(std::memory_order_relaxed);  // own
    std::memcpy(reinterpret_cast<char*>(&word) + begin, piece.data(), count);
    store(text.words[size / kWord], word);
    size += count;
    piece.remove_prefix(count);
  }
  return size;
}

template <std::size_t kWords>
void assign(NotedText<kWords>& text, std::string_view value) {
  store(text.size_bytes, append(text, 0, value));
}

template <std::size_t kWords>
std::string read(const NotedText<kWords>& text) {
  std::array<std::uint64_t, kWords> words{};
  const std::size_t size = std::min<std::size_t>(load(text.size_bytes), kWords * kWord);
  for (std::size_t i = 0; i * kWord < size; ++i) {
    words[i] = load(text.words[i]);
  }
  return {reinterpret_cast<const char*>(words.data()), size};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(printable(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return lines;
}

}  // namespace

std::optional<NotedWork> read_note(const WorkNote& note) {
  const std::uint64_t before = load(note.sequence);
  NotedWork work;
  work.stage = load(note.stage);
  work.samples = load(note.samples);
  const std::uint64_t index = load(note.index_in_shard);
  const std::string dataset = read(note.dataset);
  const std::string shard = read(note.shard);
  const std::string keys = read(note.keys);
  // Relaxed: the acquires before it keep it last.
  if (before % 2 != 0 || work.stage == 0 ||
      note.sequence.load(std::memory_order_relaxed) != before) {
    return std::nullopt;
  }
  --work.stage;
  work.keys = lines_of(keys);
  if (index != 0) {
    work.index_in_shard = index - 1;
    work.dataset = printable(dataset);
    work.shard = printable(shard);
  }
  return work;
}

std::uint64_t works_begun(const WorkNote& note) {
  return note.sequence.load(std::memory_order_relaxed);  // nothing is ordered by it
}

std::string describe(const NotedWork& work) {
  std::string text = fmt::format("in stage '{}'", work.stage_name);
  if (work.keys.empty()) {
    return text;
  }
  if (work.samples > 1) {
    text +=
        fmt::format(" on {} samples: '{}'{}; the first is", work.samples,
                    fmt::join(work.keys, "', '"), work.keys.size() < work.samples ? ", ..." : "");
  } else {
    text += fmt::format(" on sample '{}',", work.keys.front());
  }
  return text + (work.index_in_shard
                     ? fmt::format(" number {} of {}", *work.index_in_shard, work.shard)
                     : std::string(" of no known shard"));
}

void WorkNoteWriter::begin(std::size_t stage, std::span<const Sample> samples) {
  const std::uint64_t odd = note_.sequence.load(std::memory_order_relaxed) | 1;  // only writer
  note_.sequence.store(odd, std::memory_order_relaxed);  // ordered by the releases that follow
  store(note_.stage, stage + 1);
  std::uint64_t count = 0;
  std::size_t size = 0;
  for (const Sample& sample : samples) {
    count += sample.keys.size();
    for (std::size_t i = 0; i < sample.keys.size() && size < sizeof(note_.keys.words); ++i) {
      if (size > 0) {
        size = append(note_.keys, size, "\n");
      }
      size = append(note_.keys, size, sample.keys[i]);
    }
  }
  store(note_.keys.size_bytes, size);
  store(note_.samples, count);
  if (samples.empty() || samples.front().sources.empty() ||
      !samples.front().sources.front().shard) {
    store(note_.index_in_shard, 0);
  } else {
    const SampleSource& source = samples.front().sources.front();
    if (source.shard != shard_) {
      shard_ = source.shard;
      assign(note_.dataset, shard_->dataset_path);
      assign(note_.shard, shard_->shard_name);
    }
    store(note_.index_in_shard, static_cast<std::uint64_t>(source.index_in_shard) + 1);
  }
  store(note_.sequence, odd + 1);
}

void WorkNoteWriter::end() {
  // Alone it is whole: who sees it knows that the rest means nothing.
  store(note_.stage, 0);
}

}  // namespace energon
