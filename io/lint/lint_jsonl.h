// lint() for a JSONL file. Private to io.

#pragma once

#include <string>

#include "io/lint/lint.h"

namespace energon {

/// Reads and parses every line, and checks the index beside the file, if there is one. Throws Error
/// (kNotFound, kIo, kCancelled).
LintReport lint_jsonl(const std::string& path, const LintOptions& options);

}  // namespace energon
