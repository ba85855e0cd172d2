#include "media/tokens/sentencepiece.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/error.h"
#include "io/file.h"
#include "media/tokens/model_check.h"

// Set to 1 or 0 by the build.
#ifndef ENERGON_HAS_SENTENCEPIECE
#error "ENERGON_HAS_SENTENCEPIECE must be 1 or 0"
#endif
#if ENERGON_HAS_SENTENCEPIECE
#include <dlfcn.h>
#include <sentencepiece_processor.h>
#endif

namespace energon {

#if ENERGON_HAS_SENTENCEPIECE

// --- Calls of the library ---
//
// It is loaded when it is first needed and not linked.
//
// The library of Debian exports a copy of Protocol Buffers of its own. In a program that is linked
// with it and with libprotobuf, as libtorch is, each calls functions of the other's version, and
// the program crashes before main(). Loaded later and by itself it keeps its functions to itself.
//
// Methods of SentencePieceProcessor are virtual, so they are called through the object. The few
// other functions are found by name.

namespace {

/// What the library made; ended by its own destructor.
using PieceProcessor = std::unique_ptr<sentencepiece::SentencePieceProcessor>;

// Each keeps its functions to itself, and the library prefers its own. Sanitizers refuse the
// second.
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

[[noreturn]] void throw_loader_problem() {
  const char* const problem = ::dlerror();
  throw Error(ErrorCode::kUnsupported,
              fmt::format("cannot load the library of SentencePiece ({}); install the package "
                          "libsentencepiece0",
                          problem != nullptr ? problem : "no reason given"));
}

// Names by the Itanium C++ ABI, in which a constructor is a function of the object's address.
struct PieceCalls {
  void* library = nullptr;  // stays loaded
  void (*construct_processor)(void* storage) = nullptr;
  const char* (*error_message)(const sentencepiece::util::Status* status) = nullptr;
  void (*destroy_status)(sentencepiece::util::Status* status) = nullptr;
};

template <class Function>
void find_call(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
  if (function == nullptr) {
    throw_loader_problem();
  }
}

// What the library would print is in its errors, or of no interest.
void silence_library(void* library) {
  using SetMinLogLevel = void (*)(int level);
  constexpr int kOnlyFatal = 3;
  // Exported, though not in its headers.
  if (const auto set = reinterpret_cast<SetMinLogLevel>(
          ::dlsym(library, "_ZN13sentencepiece7logging14SetMinLogLevelEi"))) {
    set(kOnlyFatal);
  }
}

PieceCalls load_calls() {
  PieceCalls calls;
  calls.library = ::dlopen(ENERGON_SENTENCEPIECE_LIBRARY, kLoadFlags);
  if (calls.library == nullptr) {
    throw_loader_problem();
  }
  find_call(calls.library, "_ZN13sentencepiece22SentencePieceProcessorC1Ev",
            calls.construct_processor);
  find_call(calls.library, "_ZNK13sentencepiece4util6Status13error_messageEv", calls.error_message);
  find_call(calls.library, "_ZN13sentencepiece4util6StatusD1Ev", calls.destroy_status);
  silence_library(calls.library);
  return calls;
}

const PieceCalls& piece_calls() {
  static const PieceCalls calls = load_calls();
  return calls;
}

/// Loads the library if that has not happened yet, and silences it, for the whole process. Throws
/// Error (kUnsupported) that names the package if it cannot be loaded. Thread-safe.
PieceProcessor new_piece_processor() {
  const PieceCalls& calls = piece_calls();
  using sentencepiece::SentencePieceProcessor;
  struct Storage {
    void operator()(void* bytes) const { ::operator delete(bytes); }
  };
  std::unique_ptr<void, Storage> storage(::operator new(sizeof(SentencePieceProcessor)));
  calls.construct_processor(storage.get());
  return PieceProcessor(std::launder(static_cast<SentencePieceProcessor*>(storage.release())));
}

/// The message of a status that the library has returned; nothing if it is no failure. Ends it.
std::optional<std::string> end_status(sentencepiece::util::Status& status) {
  std::optional<std::string> problem;
  if (!status.ok()) {
    problem = piece_calls().error_message(&status);
  }
  piece_calls().destroy_status(&status);
  return problem;
}

/// Runs `call`, which returns a status of the library, and gives the message of a failure.
template <class Call>
std::optional<std::string> problem_of(const Call& call) {
  using Status = sentencepiece::util::Status;
  static_assert(std::is_same_v<decltype(call()), Status>);
  // Not a variable: its destructor would have to be linked.
  alignas(Status) std::byte storage[sizeof(Status)];
  return end_status(*new (storage) Status(call()));
}

}  // namespace

// --- The tokenizer ---

namespace {

constexpr int kMaxCandidates = 1024;
constexpr double kMaxAlpha = 100;

// Runs `call`, which returns a status; `what` begins the message of the Error.
template <class Call>
void run_library(ErrorCode code, const char* what, const Call& call) {
  std::optional<std::string> problem;
  try {
    problem = problem_of(call);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    problem = error.what();
  }
  if (problem) {
    throw Error(code, fmt::format("{}: {}", what, printable(*problem)));
  }
}

// One of the best ways to divide a text.
struct PieceCandidate {
  std::vector<std::int32_t> ids;
  double score = 0;
};

// The message SentencePieceText of sentencepiece.proto.
PieceCandidate read_candidate(ByteView message) {
  PieceCandidate candidate;
  ProtoFields fields(message);
  while (const auto field = fields.next()) {
    if (field->number == 3 && field->type == WireType::kFixed32) {
      candidate.score = std::bit_cast<float>(static_cast<std::uint32_t>(field->integer));
    } else if (field->number == 2 && field->type == WireType::kBytes) {
      std::int32_t id = 0;  // what is not in the message is 0
      ProtoFields piece(field->bytes);
      while (const auto part = piece.next()) {
        id = part->number == 2 ? static_cast<std::int32_t>(part->integer) : id;
      }
      candidate.ids.push_back(id);
    }
  }
  return candidate;
}

// The message NBestSentencePieceText.
std::vector<PieceCandidate> read_candidates(ByteView message) {
  std::vector<PieceCandidate> candidates;
  ProtoFields fields(message);
  while (const auto field = fields.next()) {
    if (field->number == 1 && field->type == WireType::kBytes) {
      candidates.push_back(read_candidate(field->bytes));
    }
  }
  return candidates;
}

std::optional<std::int32_t> id_or_none(int id) {
  return id < 0 ? std::nullopt : std::optional<std::int32_t>(id);
}

void validate(const SentencePieceOptions& options, PieceModel type) {
  if (!options.sampling) {
    return;
  }
  const auto [candidates, alpha] = *options.sampling;
  if (candidates < 2 || candidates > kMaxCandidates || !(alpha >= 0 && alpha <= kMaxAlpha)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("sampling of {} candidates with alpha {}; candidates are 2 to {}, "
                            "alpha is 0 to {}",
                            candidates, alpha, kMaxCandidates, kMaxAlpha));
  }
  if (type != PieceModel::kUnigram) {
    throw Error(ErrorCode::kUnsupported,
                "only unigram models can sample; leave sampling out, or train the model with "
                "--model_type=unigram");
  }
}

class SentencePieceTokenizer final : public Tokenizer {
 public:
  SentencePieceTokenizer(ByteView model, const SentencePieceOptions& options)
      : sampling_(options.sampling) {
    validate(options, check_piece_model(model));
    run_library(ErrorCode::kCorruptData, "SentencePiece does not take the model",
                [&] { return library_->LoadFromSerializedProto(as_text(model)); });
    special_ = {.begin = id_or_none(library_->bos_id()),
                .end = id_or_none(library_->eos_id()),
                .pad = id_or_none(library_->pad_id()),
                .unknown = id_or_none(library_->unk_id())};
    begin_ = wanted(options.add_begin, special_.begin, "add_begin");
    end_ = wanted(options.add_end, special_.end, "add_end");
  }

  std::vector<std::int32_t> tokens(std::string_view text) const override {
    check_text(text);
    std::vector<int> ids;
    run_library(ErrorCode::kInvalidArgument, "SentencePiece has no tokens for the text",
                [&] { return library_->Encode(text, &ids); });
    return finished(std::move(ids));
  }

  std::vector<std::int32_t> drawn_tokens(std::string_view text, CallRng& rng) const override {
    if (!sampling_) {
      return tokens(text);
    }
    check_text(text);
    std::vector<PieceCandidate> found = read_candidates(
        as_bytes(library_->NBestEncodeAsSerializedProto(text, sampling_->candidates)));
    if (found.empty()) {  // as for an empty text; of a failure, tokens() says why
      return tokens(text);
    }
    return finished(std::move(found[draw(found, rng)].ids));
  }

  std::string text(std::span<const std::int32_t> ids) const override {
    const auto wrong = std::ranges::find_if(
        ids, [&](std::int32_t id) { return id < 0 || id >= vocabulary_size(); });
    if (wrong != ids.end()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("token {} is {}; the vocabulary has 0 to {}", wrong - ids.begin(),
                              *wrong, vocabulary_size() - 1));
    }
    std::string text;
    run_library(ErrorCode::kInvalidArgument, "SentencePiece has no text for the tokens",
                [&] { return library_->Decode(std::vector<int>(ids.begin(), ids.end()), &text); });
    return text;
  }

  std::int32_t vocabulary_size() const override { return library_->GetPieceSize(); }
  SpecialTokens special_tokens() const override { return special_; }

 private:
  static std::optional<std::int32_t> wanted(bool is_wanted, std::optional<std::int32_t> id,
                                            const char* option) {
    if (is_wanted && !id) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{} is set, but the model has no such token", option));
    }
    return is_wanted ? id : std::nullopt;
  }

  static void check_text(std::string_view text) {
    if (text.size() > kMaxTokenizedTextBytes) {
      throw Error(ErrorCode::kResourceExhausted,
                  fmt::format("a text of {} bytes is longer than {}; divide it", text.size(),
                              kMaxTokenizedTextBytes));
    }
  }

  std::vector<std::int32_t> finished(std::vector<int> ids) const {
    if (begin_) {
      ids.insert(ids.begin(), *begin_);
    }
    if (end_) {
      ids.push_back(*end_);
    }
    return ids;
  }

  // The library would draw from a generator of its own, which differs in each thread.
  std::size_t draw(const std::vector<PieceCandidate>& found, CallRng& rng) const {
    const double best = std::ranges::max(found, {}, &PieceCandidate::score).score;
    std::vector<double> sums;  // of the weights so far
    double sum = 0;
    for (const PieceCandidate& candidate : found) {
      sum += std::exp(sampling_->alpha * (candidate.score - best));
      sums.push_back(sum);
    }
    const auto drawn = std::ranges::upper_bound(sums, rng.uniform() * sum);
    return std::min<std::size_t>(drawn - sums.begin(), found.size() - 1);
  }

  const PieceProcessor library_ = new_piece_processor();  // its const functions are thread-safe
  const std::optional<SentencePieceSampling> sampling_;
  SpecialTokens special_;
  std::optional<std::int32_t> begin_;  // put before each text
  std::optional<std::int32_t> end_;    // put behind it
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
              "this build has no tokenizers of SentencePiece (libsentencepiece-dev)");
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
