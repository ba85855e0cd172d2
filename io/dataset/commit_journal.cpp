#include "io/dataset/commit_journal.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "io/error.h"
#include "io/shared_folder.h"

namespace energon {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kJournalMagic = "energon prepare commit 1";
constexpr std::string_view kEnd = "end";
constexpr std::string_view kRemove = "remove";
constexpr std::string_view kMove = "move";
constexpr std::string_view kMoveTemporary = "move-temporary";

// A dataset may come from anyone, and its journal is carried out. So it may name only files that
// prepare writes.
void check_target(const std::string& path, const std::string& journal) {
  const fs::path target(path);
  const bool is_inside =
      target.is_relative() && std::none_of(target.begin(), target.end(), [](const fs::path& name) {
        return name == ".." || name == ".";
      });
  const bool is_ours = path.ends_with(".idx") || path.ends_with(".xxh3") ||
                       (path.starts_with(".nv-meta/") && path.find('/') == path.rfind('/'));
  if (!is_inside || !is_ours) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("the journal of a prepare names '{}', which prepare does not write; "
                            "remove the folder .nv-meta.commit and prepare the dataset again",
                            printable(path)),
                {.path = journal});
  }
}

bool has_possible_source(const CommitStep& step) {
  switch (step.kind) {
    case CommitStep::Kind::kMove:
      return step.from.find('/') == std::string::npos && step.from != "..";
    case CommitStep::Kind::kMoveTemporary:
      return target_of_temporary(step.from) == step.to;
    case CommitStep::Kind::kRemove:
      return true;
  }
  return false;
}

}  // namespace

std::string encode_journal(const std::vector<CommitStep>& steps) {
  std::string text;
  const auto add = [&](std::string_view token) { text.append(token).push_back('\0'); };
  add(kJournalMagic);
  for (const CommitStep& step : steps) {
    switch (step.kind) {
      case CommitStep::Kind::kMove:
        add(kMove);
        add(step.from);
        break;
      case CommitStep::Kind::kMoveTemporary:
        add(kMoveTemporary);
        add(step.from);
        break;
      case CommitStep::Kind::kRemove:
        add(kRemove);
        break;
    }
    add(step.to);
  }
  add(kEnd);
  return text;
}

std::vector<CommitStep> decode_journal(std::string_view text, const std::string& journal) {
  const auto fail = [&](std::string_view problem) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("not the journal of a prepare: {}; remove the folder .nv-meta.commit "
                            "and prepare the dataset again",
                            problem),
                {.path = journal});
  };
  const auto next = [&] {
    const std::size_t end = text.find('\0');
    if (end == std::string_view::npos) {
      fail("it is cut off");
    }
    std::string token(text.substr(0, end));
    text.remove_prefix(end + 1);
    return token;
  };
  if (next() != kJournalMagic) {
    fail("it does not begin as one");
  }
  std::vector<CommitStep> steps;
  for (std::string verb = next(); verb != kEnd; verb = next()) {
    CommitStep& step = steps.emplace_back();
    if (verb == kRemove) {
      step.kind = CommitStep::Kind::kRemove;
    } else if (verb == kMove || verb == kMoveTemporary) {
      step.kind = verb == kMove ? CommitStep::Kind::kMove : CommitStep::Kind::kMoveTemporary;
      step.from = next();
    } else {
      fail(fmt::format("it has '{}'", printable(verb)));
    }
    step.to = next();
    check_target(step.to, journal);
    if (!has_possible_source(step)) {
      fail(fmt::format("it moves '{}'", printable(step.from)));
    }
  }
  return steps;
}

}  // namespace energon
