#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/error.h"
#include "io/file.h"
#include "media/tokens/sentencepiece_shim.h"
#include "media/tokens/tokenizer.h"

// Set to 1 or 0 by the build.
#ifndef ENERGON_HAS_SENTENCEPIECE
#error "ENERGON_HAS_SENTENCEPIECE must be 1 or 0"
#endif

namespace energon {

#if ENERGON_HAS_SENTENCEPIECE

// --- The library, loaded when it is first needed (sentencepiece_shim.h) ---

namespace {

struct ReleasePieces {
  void operator()(EnergonPieces* pieces) const;
};
using Pieces = std::unique_ptr<EnergonPieces, ReleasePieces>;

// With RTLD_DEEPBIND, libsentencepiece prefers its own Protocol Buffers. Sanitizers refuse the
// flag.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kLoadFlags = RTLD_NOW | RTLD_LOCAL;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr int kLoadFlags = RTLD_NOW | RTLD_LOCAL;
#else
constexpr int kLoadFlags = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;
#endif
#else
constexpr int kLoadFlags = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;
#endif

// Places to look for the shim: next to the program or module with this code, as in the Python
// package and in an install tree; the build folder; the system's library folders.
std::vector<std::string> shim_paths() {
  const std::string name = "libenergon_sentencepiece.so";
  std::vector<std::string> paths;
  Dl_info here{};
  if (::dladdr(reinterpret_cast<const void*>(&shim_paths), &here) != 0) {
    const auto folder = std::filesystem::path(here.dli_fname).parent_path();
    for (const char* const place : {"lib", ".", "../lib"}) {
      paths.push_back((folder / place / name).string());
    }
  }
  for (const char* const path : {ENERGON_SENTENCEPIECE_SHIM_PATHS}) {
    paths.emplace_back(path);
  }
  paths.push_back(name);
  return paths;
}

const EnergonPieceCalls& load_calls() {
  std::string problem;
  for (const std::string& path : shim_paths()) {
    if (path.find('/') != std::string::npos && !path_exists(path)) {
      continue;
    }
    void* const library = ::dlopen(path.c_str(), kLoadFlags);  // stays loaded
    using GetCalls = const EnergonPieceCalls*();
    if (library != nullptr) {
      if (auto* const get = reinterpret_cast<GetCalls*>(::dlsym(library, "energon_piece_calls"))) {
        return *get();
      }
    }
    const char* const message = ::dlerror();
    problem = message != nullptr ? message : "no reason given";
  }
  throw Error(ErrorCode::kUnsupported,
              fmt::format("cannot load libenergon_sentencepiece.so ({}); it needs the package "
                          "libsentencepiece0, and must be installed next to the program or in a "
                          "folder of LD_LIBRARY_PATH",
                          problem));
}

/// Throws Error (kUnsupported) if the library cannot be loaded. Thread-safe.
const EnergonPieceCalls& piece_calls() {
  static const EnergonPieceCalls& calls = load_calls();
  return calls;
}

void ReleasePieces::operator()(EnergonPieces* pieces) const { piece_calls().release(pieces); }

}  // namespace

// --- The tokenizer ---

namespace {

constexpr int kMaxCandidates = 1024;
constexpr double kMaxAlpha = 100;

// Throws Error if `problem`, the message that a library call returned, is not null.
void check_call(ErrorCode code, const char* what, const char* problem) {
  if (problem != nullptr) {
    throw Error(code, fmt::format("{}: {}", what, printable(problem)));
  }
}

Pieces load_pieces(ByteView model) {
  if (model.size() > kMaxSentencePieceModelBytes) {
    throw Error(ErrorCode::kResourceExhausted,
                fmt::format("a SentencePiece model of {} bytes, the limit is {}", model.size(),
                            kMaxSentencePieceModelBytes));
  }
  EnergonPieces* pieces = nullptr;
  const std::string_view text = as_text(model);
  check_call(ErrorCode::kCorruptData, "SentencePiece cannot read the model",
             piece_calls().load(text.data(), text.size(), &pieces));
  return Pieces(pieces);
}

// One of the best segmentations of a text.
struct PieceCandidate {
  std::vector<std::int32_t> ids;
  double score = 0;
};

void take_candidate(void* candidates, const int* ids, std::size_t size, float score) {
  static_cast<std::vector<PieceCandidate>*>(candidates)
      ->push_back({.ids = {ids, ids + size}, .score = score});
}

std::optional<std::int32_t> id_or_none(int id) {
  return id < 0 ? std::nullopt : std::optional<std::int32_t>(id);
}

void validate(const SentencePieceOptions& options) {
  if (!options.sampling) {
    return;
  }
  const auto [candidates, alpha] = *options.sampling;
  if (candidates < 2 || candidates > kMaxCandidates || !(alpha >= 0 && alpha <= kMaxAlpha)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("sampling of {} candidates with alpha {}; expected 2 to {} candidates, "
                            "alpha 0 to {}",
                            candidates, alpha, kMaxCandidates, kMaxAlpha));
  }
}

class SentencePieceTokenizer final : public Tokenizer {
 public:
  SentencePieceTokenizer(ByteView model, const SentencePieceOptions& options)
      : sampling_(options.sampling) {
    validate(options);
    pieces_ = load_pieces(model);
    if (sampling_) {
      std::vector<PieceCandidate> found;
      if (calls_.encode_best(pieces_.get(), "a", 1, 2, take_candidate, &found) != nullptr) {
        throw Error(ErrorCode::kUnsupported,
                    "only unigram models can sample; omit sampling, or train the model with "
                    "--model_type=unigram");
      }
    }
    int begin = -1;
    int end = -1;
    int pad = -1;
    int unknown = -1;
    calls_.special_ids(pieces_.get(), &begin, &end, &pad, &unknown);
    special_ = {.begin = id_or_none(begin),
                .end = id_or_none(end),
                .pad = id_or_none(pad),
                .unknown = id_or_none(unknown)};
    begin_ = requested(options.add_begin, special_.begin, "add_begin");
    end_ = requested(options.add_end, special_.end, "add_end");
  }

  std::vector<std::int32_t> tokens(std::string_view text) const override {
    check_text(text);
    std::vector<PieceCandidate> found;
    check_call(ErrorCode::kInvalidArgument, "SentencePiece cannot tokenize the text",
               calls_.encode(pieces_.get(), text.data(), text.size(), take_candidate, &found));
    return finished(std::move(found.at(0).ids));
  }

  std::vector<std::int32_t> drawn_tokens(std::string_view text, CallRng& rng) const override {
    if (!sampling_) {
      return tokens(text);
    }
    check_text(text);
    std::vector<PieceCandidate> found;
    const char* const problem = calls_.encode_best(pieces_.get(), text.data(), text.size(),
                                                   sampling_->candidates, take_candidate, &found);
    if (problem != nullptr || found.empty()) {  // empty text, or a failure that tokens() reports
      return tokens(text);
    }
    return finished(std::move(found[draw(found, rng)].ids));
  }

  std::string text(std::span<const std::int32_t> ids) const override {
    const auto wrong = std::ranges::find_if(
        ids, [&](std::int32_t id) { return id < 0 || id >= vocabulary_size(); });
    if (wrong != ids.end()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("token {} is {}; expected 0 to {}", wrong - ids.begin(), *wrong,
                              vocabulary_size() - 1));
    }
    std::string text;
    check_call(ErrorCode::kInvalidArgument, "SentencePiece cannot decode the tokens",
               calls_.decode(
                   pieces_.get(), ids.data(), ids.size(),
                   [](void* to, const char* from, std::size_t size) {
                     static_cast<std::string*>(to)->assign(from, size);
                   },
                   &text));
    return text;
  }

  std::int32_t vocabulary_size() const override { return calls_.vocabulary_size(pieces_.get()); }
  SpecialTokens special_tokens() const override { return special_; }

 private:
  static std::optional<std::int32_t> requested(bool is_requested, std::optional<std::int32_t> id,
                                               const char* option) {
    if (is_requested && !id) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{} is set, but the model has no such token", option));
    }
    return is_requested ? id : std::nullopt;
  }

  static void check_text(std::string_view text) {
    if (text.size() > kMaxTokenizedTextBytes) {
      throw Error(ErrorCode::kResourceExhausted,
                  fmt::format("the text has {} bytes, the limit is {}: split it", text.size(),
                              kMaxTokenizedTextBytes));
    }
  }

  std::vector<std::int32_t> finished(std::vector<std::int32_t> ids) const {
    if (begin_) {
      ids.insert(ids.begin(), *begin_);
    }
    if (end_) {
      ids.push_back(*end_);
    }
    return ids;
  }

  // Drawn here, because the library would use a generator of its own, which differs in each thread.
  std::size_t draw(const std::vector<PieceCandidate>& found, CallRng& rng) const {
    const double best = std::ranges::max(found, {}, &PieceCandidate::score).score;
    std::vector<double> sums;  // cumulative weights
    double sum = 0;
    for (const PieceCandidate& candidate : found) {
      sum += std::exp(sampling_->alpha * (candidate.score - best));
      sums.push_back(sum);
    }
    const auto drawn = std::ranges::upper_bound(sums, rng.uniform() * sum);
    return std::min<std::size_t>(drawn - sums.begin(), found.size() - 1);
  }

  const EnergonPieceCalls& calls_ = piece_calls();
  Pieces pieces_;  // const functions of the library are thread-safe
  const std::optional<SentencePieceSampling> sampling_;
  SpecialTokens special_;
  std::optional<std::int32_t> begin_;  // added before each text
  std::optional<std::int32_t> end_;    // added after each text
};

}  // namespace

std::shared_ptr<const Tokenizer> sentencepiece_tokenizer(ByteView model,
                                                         const SentencePieceOptions& options) {
  return std::make_shared<SentencePieceTokenizer>(model, options);
}

bool has_sentencepiece() { return true; }

#else

std::shared_ptr<const Tokenizer> sentencepiece_tokenizer(ByteView /*model*/,
                                                         const SentencePieceOptions& /*options*/) {
  throw Error(ErrorCode::kUnsupported,
              "this build has no SentencePiece tokenizers (libsentencepiece-dev)");
}

bool has_sentencepiece() { return false; }

#endif

// --- Files ---

std::shared_ptr<const Tokenizer> open_sentencepiece(const std::string& path,
                                                    const SentencePieceOptions& options) {
  const std::string model = read_file(path, kMaxSentencePieceModelBytes);
  try {
    return sentencepiece_tokenizer(as_bytes(model), options);
  } catch (Error& error) {
    error.with({.path = path});
    throw;
  }
}

}  // namespace energon
