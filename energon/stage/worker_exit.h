// Exit codes by which a worker says why it ended itself.

#pragma once

namespace energon {

/// A call of next() took longer than the watchdog allows (wrappers/watch/watchdog.h).
inline constexpr int kWatchdogExitCode = 75;

}  // namespace energon
