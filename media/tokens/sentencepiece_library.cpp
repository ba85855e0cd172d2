// For builds with libsentencepiece.

#include <algorithm>
#include <bit>
#include <cmath>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"
#include "media/tokens/model_check.h"
#include "media/tokens/proto_fields.h"
#include "media/tokens/sentencepiece.h"
#include "media/tokens/sentencepiece_calls.h"

namespace energon {
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

}  // namespace energon
