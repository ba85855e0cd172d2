#include "energon/checkpoint/certificate.h"

#include <catch2/catch.hpp>

namespace {

using energon::Certificate;
using energon::CertificatePart;
using energon::Sample;

Sample batch(const std::vector<std::string>& keys, std::uint64_t checksum = 0) {
  Sample sample;
  sample.keys = keys;
  for (std::uint32_t i = 0; i < keys.size(); ++i) {
    sample.sources.push_back({.shard = nullptr, .sample = i, .checksum = checksum});
  }
  return sample;
}

Certificate of(const std::vector<Sample>& batches) {
  Certificate certificate;
  for (const Sample& sample : batches) {
    extend(certificate, sample);
  }
  return certificate;
}

TEST_CASE("A certificate depends on samples, their order and their contents", "[certificate]") {
  const Certificate expected = of({batch({"a", "b"}), batch({"c"})});
  CHECK(expected.samples == 3);
  CHECK(of({batch({"a"}), batch({"b", "c"})}) == expected);  // however they were batched
  CHECK_FALSE(of({batch({"b", "a"}), batch({"c"})}) == expected);
  CHECK_FALSE(of({batch({"a", "b"})}) == expected);
  CHECK_FALSE(of({batch({"ab", "c"})}).digest == of({batch({"a", "bc"})}).digest);
  CHECK_FALSE(of({batch({"a"}, 1)}) == of({batch({"a"}, 2)}));
}

TEST_CASE("The certificate of several logical shards does not depend on their order",
          "[certificate]") {
  const Certificate a = of({batch({"a"})});
  const Certificate b = of({batch({"b"})});
  const std::vector<CertificatePart> parts = {{0, a}, {1, b}};
  const std::vector<CertificatePart> reversed = {{1, b}, {0, a}};
  const std::vector<CertificatePart> swapped = {{0, b}, {1, a}};
  CHECK(combine(parts) == combine(reversed));
  CHECK_FALSE(combine(parts) == combine(swapped));
  CHECK(combine(parts).samples == 2);
}

TEST_CASE("The certificate of a global batch depends only on its samples and their places",
          "[certificate]") {
  const auto of_batches = [](const std::vector<Sample>& batches) {
    std::vector<Certificate> micro_batches;
    for (const Sample& sample : batches) {
      micro_batches.push_back(certificate_of_batch(sample));
    }
    return certificate_of_global_batch(micro_batches);
  };
  Certificate chain = of({batch({"x"})});
  extend(chain, batch({"a", "b"}));
  CHECK_FALSE(chain.digest == certificate_of_batch(batch({"a", "b"})).digest);
  CHECK(certificate_of_batch(batch({"a", "b"})) == of({batch({"a", "b"})}));
  const Certificate expected = of_batches({batch({"a", "b"}), batch({"c"})});
  CHECK(expected.samples == 3);
  CHECK(of_batches({batch({"a", "b"}), batch({"c"})}) == expected);
  CHECK_FALSE(of_batches({batch({"c"}), batch({"a", "b"})}) == expected);
  CHECK_FALSE(of_batches({batch({"b", "a"}), batch({"c"})}) == expected);
  CHECK_FALSE(of_batches({batch({"a"}), batch({"b", "c"})}) == expected);
  CHECK_FALSE(of_batches({batch({"a", "b"})}) == expected);
  CHECK_FALSE(of_batches({batch({"a", "b"}, 1), batch({"c"})}) == expected);
}

}  // namespace
