// The step that prepares kernel sources: rewrites stay on their lines, and what cannot be done is said in one message.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace {

namespace fs = std::filesystem;

class PrepareKernel : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tileproof_prepare_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    fs::create_directory(root_ / "src");
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const { std::ofstream(root_ / path) << text; }
  std::string read(const std::string& path) const {
    std::ifstream file(root_ / path);
    EXPECT_TRUE(file) << path;
    return {std::istreambuf_iterator<char>(file), {}};
  }

  // Exit status of the step; what it prints is in said_.
  int prepare(const std::string& patch = "") {
    std::string command = std::string(TILEPROOF_CMAKE) + " -DSOURCE_DIR=" + (root_ / "src").string() +
                          " -DOUTPUT_DIR=" + (root_ / "out").string();
    if (!patch.empty()) command += " -DPATCH=" + (root_ / patch).string();
    command += std::string(" -P ") + TILEPROOF_PREPARE + " 2>&1";
    FILE* pipe = popen(command.c_str(), "r");
    said_.clear();
    for (int c = fgetc(pipe); c != EOF; c = fgetc(pipe)) said_ += static_cast<char>(c);
    return WEXITSTATUS(pclose(pipe));
  }

  fs::path root_;
  std::string said_;
};

TEST_F(PrepareKernel, RewritesLaunchesAndSharedArraysOnTheirLines) {
  const std::string source =
      "// not k<<<1, 2>>>(x); here\n"
      "extern __shared__ float a[];\n"
      "  extern __shared__ alignas(16) unsigned char b[];  // tail\n"
      "void f() {\n"
      "  if (x) k<<<g, b>>>(1);\n"
      "  n::k<A<B, C>, 3>\n"
      "      <<<dim3(1, n >> 1), b, 4 * (n + 1), s>>>(p, q[0]);\n"
      "}\n";
  write("src/x.cu", source);
  write("src/y.cuh", "void g() { k<<<1, 2>>>(); }\n");
  ASSERT_EQ(prepare(), 0) << said_;
  EXPECT_EQ(read("out/src/x.cu"), source);
  EXPECT_EQ(read("out/host/src/x.cpp"),
            "#line 1 \"" + (root_ / "src/x.cu").string() +
                "\"\n"
                "// not k<<<1, 2>>>(x); here\n"
                "float* const a = static_cast<float*>(::tileproof::cpu::dynamic_shared());\n"
                "  unsigned char* const b = static_cast<unsigned char*>(::tileproof::cpu::dynamic_shared());  // tail\n"
                "void f() {\n"
                "  if (x) ::tileproof::cpu::launcher([&](auto&... tileproof_p) { k(tileproof_p...); }, g, b)(1);\n"
                "  ::tileproof::cpu::launcher([&](auto&... tileproof_p) { n::k<A<B, C>, 3>(tileproof_p...); }, "
                "dim3(1, n >> 1), b, 4 * (n + 1), s)(p, q[0]);\n"
                "}\n");
  EXPECT_NE(read("out/host/src/y.cuh").find("::tileproof::cpu::launcher("), std::string::npos);
}

TEST_F(PrepareKernel, AppliesThePatchToBothCopiesAndLeavesTheSourceAlone) {
  write("src/x.cu", "int a;\nint b;\n");
  write("src/y.cu", "int y;\n");
  write("p.patch", "A report.\n--- a/src/x.cu\n+++ b/src/x.cu\n@@ -1,2 +1,2 @@\n int a;\n-int b;\n+int c;\n");
  ASSERT_EQ(prepare("p.patch"), 0) << said_;
  EXPECT_EQ(read("src/x.cu"), "int a;\nint b;\n");
  EXPECT_EQ(read("out/src/x.cu"), "int a;\nint c;\n");
  EXPECT_EQ(read("out/host/src/x.cpp"), "#line 1 \"" + (root_ / "out/src/x.cu").string() + "\"\nint a;\nint c;\n");

  const auto before = fs::last_write_time(root_ / "out/host/src/y.cpp");
  write("src/x.cu", "int d;\nint a;\nint b;\n");
  ASSERT_EQ(prepare("p.patch"), 0) << said_;
  EXPECT_EQ(read("out/src/x.cu"), "int d;\nint a;\nint c;\n");
  EXPECT_EQ(fs::last_write_time(root_ / "out/host/src/y.cpp"), before) << "what did not change is not written";
}

TEST_F(PrepareKernel, APatchThatDoesNotApplyIsNamedWithItsHunk) {
  write("src/x.cu", "int a;\nint other;\n");
  write("stale.patch", "--- a/src/x.cu\n+++ b/src/x.cu\n@@ -1,2 +1,2 @@\n int a;\n-int b;\n+int c;\n");
  EXPECT_NE(prepare("stale.patch"), 0);
  EXPECT_NE(said_.find("stale.patch does not apply"), std::string::npos) << said_;
  EXPECT_NE(said_.find("Hunk #1 FAILED"), std::string::npos) << said_;
  EXPECT_NE(said_.find("+int c;"), std::string::npos) << said_;
  EXPECT_FALSE(fs::exists(root_ / "out/prepared"));
}

TEST_F(PrepareKernel, ALaunchThatCannotBeReadIsNamedWithItsLine) {
  write("src/x.cu", "int a;\nint b = (1)<<<2;\n");
  EXPECT_NE(prepare(), 0);
  EXPECT_NE(said_.find("x.cu:2"), std::string::npos) << said_;
}

}  // namespace
