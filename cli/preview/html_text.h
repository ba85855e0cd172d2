// Text, bytes and numbers as HTML. Whatever comes from data passes through here.
//
// HTML: https://html.spec.whatwg.org/; data URIs: RFC 2397.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "io/bytes.h"

namespace energon::cli {

/// `text` for an element or a quoted attribute: &, <, >, " and ' become entities. Control
/// characters and bytes that are not UTF-8 are shown as \xNN, characters that change the writing
/// direction as \uNNNN.
std::string html_text(std::string_view text);

/// The same, but ends of lines and tabs stay, for <pre>.
std::string html_lines(std::string_view text);

/// The first `size` bytes, or up to three fewer, so that no character is cut.
std::string_view whole_characters(std::string_view text, std::size_t size);

/// Whether the beginning of `text` is UTF-8 without control characters other than white space.
bool looks_like_text(std::string_view text);

/// "data:image/png;base64,…". `mime` is not escaped.
std::string data_uri(std::string_view mime, ByteView bytes);

/// The first bytes in hexadecimal and as ASCII, 8 a line, in <pre>.
std::string hex_html(ByteView bytes);

}  // namespace energon::cli
