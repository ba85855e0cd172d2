// How pages look, and the little script that they have.

#pragma once

#include <string_view>

namespace energon::cli {

/// The content of <style>: light or dark as the reader's system prefers, one column on a phone.
std::string_view page_style();

/// The content of <script>: shows an original when its thumbnail is clicked.
std::string_view page_script();

}  // namespace energon::cli
