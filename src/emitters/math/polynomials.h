// Written by scripts/fit_polynomials.py: polynomials close to the best ones of their degrees. Errors are relative to
// the function for which a polynomial serves, and those of the fit and of the coefficients' rounding alone.
#pragma once

#include "emitters/math/scalar.h"

/// (exp(z) - 1 - z) / z^2 for |z| <= ln(2)/2; error 2^-28.0.
static inline float exp_tail_f32(float z) {
  float p = 0x1.684fe4p-10F;
  p = fma_f32(p, z, 0x1.123bf0p-7F);
  p = fma_f32(p, z, 0x1.555b9ap-5F);
  p = fma_f32(p, z, 0x1.55548ep-3F);
  p = fma_f32(p, z, 0x1.fffff8p-2F);
  return p;
}

/// (log(1 + z) - z) / z^2 for |z| <= 1/3; error 2^-27.6.
static inline float log_tail_f32(float z) {
  float p = -0x1.030928p-3F;
  p = fma_f32(p, z, 0x1.1eec58p-3F);
  p = fma_f32(p, z, -0x1.f560c6p-4F);
  p = fma_f32(p, z, 0x1.1eb7fcp-3F);
  p = fma_f32(p, z, -0x1.558856p-3F);
  p = fma_f32(p, z, 0x1.99d270p-3F);
  p = fma_f32(p, z, -0x1.ffff6ap-3F);
  p = fma_f32(p, z, 0x1.555500p-2F);
  p = fma_f32(p, z, -0x1.000000p-1F);
  return p;
}

/// (sin(x) - x) / x^3 for z = x^2, |x| <= pi/4; error 2^-27.8.
static inline float sine_tail_f32(float z) {
  float p = -0x1.992bd2p-13F;
  p = fma_f32(p, z, 0x1.1106e4p-7F);
  p = fma_f32(p, z, -0x1.555544p-3F);
  return p;
}

/// (cos(x) - 1 + x^2/2) / x^4 for z = x^2, |x| <= pi/4; error 2^-33.1.
static inline float cosine_tail_f32(float z) {
  float p = 0x1.99e9d4p-16F;
  p = fma_f32(p, z, -0x1.6c0c2cp-10F);
  p = fma_f32(p, z, 0x1.55554ap-5F);
  return p;
}

/// (atan(x) - x) / x^3 for z = x^2, |x| <= tan(pi/8); error 2^-30.3.
static inline float atan_tail_f32(float z) {
  float p = -0x1.f005a0p-5F;
  p = fma_f32(p, z, 0x1.b18498p-4F);
  p = fma_f32(p, z, -0x1.23ad72p-3F);
  p = fma_f32(p, z, 0x1.999120p-3F);
  p = fma_f32(p, z, -0x1.555548p-2F);
  return p;
}

/// (asin(x) - x) / x^3 for z = x^2, |x| <= 1/2; error 2^-27.6.
static inline float asin_tail_f32(float z) {
  float p = 0x1.590538p-5F;
  p = fma_f32(p, z, 0x1.8c9e26p-6F);
  p = fma_f32(p, z, 0x1.74735ep-5F);
  p = fma_f32(p, z, 0x1.33023ep-4F);
  p = fma_f32(p, z, 0x1.5555c8p-3F);
  return p;
}

/// (erf(x) - x) / x for z = x^2, |x| <= 1; error 2^-30.2.
static inline float erf_tail_f32(float z) {
  float p = -0x1.230880p-17F;
  p = fma_f32(p, z, 0x1.c8c8d8p-14F);
  p = fma_f32(p, z, -0x1.b9d558p-11F);
  p = fma_f32(p, z, 0x1.55e0eep-8F);
  p = fma_f32(p, z, -0x1.b82232p-6F);
  p = fma_f32(p, z, 0x1.ce2ea2p-4F);
  p = fma_f32(p, z, -0x1.812744p-2F);
  p = fma_f32(p, z, 0x1.06eba8p-3F);
  return p;
}

/// -log(erfc(z + 2)) for -1 <= z <= 2; error 2^-30.4.
static inline float log_erfc_f32(float z) {
  float p = 0x1.883cacp-19F;
  p = fma_f32(p, z, 0x1.aaf974p-16F);
  p = fma_f32(p, z, -0x1.2c578ep-13F);
  p = fma_f32(p, z, 0x1.79e788p-11F);
  p = fma_f32(p, z, -0x1.d4011ep-9F);
  p = fma_f32(p, z, 0x1.0dda6ap-6F);
  p = fma_f32(p, z, 0x1.d8f616p-1F);
  p = fma_f32(p, z, 0x1.1ac324p+2F);
  p = fma_f32(p, z, 0x1.575b32p+2F);
  return p;
}

/// erfc(x) 2^(L x^2) (x + 2) for z = (x - 2) / (x + 2), 0 <= x <= 10.2; error 2^-23.7.
static inline float erfc_factor_f32(float z) {
  float p = -0x1.ed2846p-12F;
  p = fma_f32(p, z, -0x1.93e9bcp-11F);
  p = fma_f32(p, z, 0x1.8657a8p-9F);
  p = fma_f32(p, z, 0x1.a683e6p-8F);
  p = fma_f32(p, z, -0x1.5ff3bap-6F);
  p = fma_f32(p, z, -0x1.2a7fb6p-5F);
  p = fma_f32(p, z, 0x1.1e2d08p-2F);
  p = fma_f32(p, z, -0x1.5fd392p-1F);
  p = fma_f32(p, z, 0x1.058672p+0F);
  return p;
}

/// (tanh(x) - x) / x^3 for z = x^2, |x| <= 0.7; error 2^-25.9.
static inline float tanh_tail_f32(float z) {
  float p = -0x1.4fc5cep-8F;
  p = fma_f32(p, z, 0x1.48e1acp-6F);
  p = fma_f32(p, z, -0x1.b6b05cp-5F);
  p = fma_f32(p, z, 0x1.10fa36p-3F);
  p = fma_f32(p, z, -0x1.5554f0p-2F);
  return p;
}

/// (exp(z) - 1 - z) / z^2 for |z| <= ln(2)/2; error 2^-57.6.
static inline double exp_tail_f64(double z) {
  double p = 0x1.adfa45d221166p-26;
  p = fma_f64(p, z, 0x1.28b0d4566b2bbp-22);
  p = fma_f64(p, z, 0x1.71ded720eda62p-19);
  p = fma_f64(p, z, 0x1.a01995e460d9dp-16);
  p = fma_f64(p, z, 0x1.a01a014dbc99ep-13);
  p = fma_f64(p, z, 0x1.6c16c185f760fp-10);
  p = fma_f64(p, z, 0x1.111111112119bp-7);
  p = fma_f64(p, z, 0x1.555555554fe40p-5);
  p = fma_f64(p, z, 0x1.5555555555515p-3);
  p = fma_f64(p, z, 0x1.000000000000cp-1);
  return p;
}

/// (log(1 + z) - z) / z^2 for |z| <= 1/3; error 2^-56.7.
static inline double log_tail_f64(double z) {
  double p = 0x1.539c59181269fp-4;
  p = fma_f64(p, z, -0x1.641d883a7660ep-4);
  p = fma_f64(p, z, 0x1.5f79e0dee89b2p-5);
  p = fma_f64(p, z, -0x1.7386e0914067ap-5);
  p = fma_f64(p, z, 0x1.ed8d7d7772fc2p-5);
  p = fma_f64(p, z, -0x1.06237af5567e8p-4);
  p = fma_f64(p, z, 0x1.108dbe309b271p-4);
  p = fma_f64(p, z, -0x1.24079b62f2cddp-4);
  p = fma_f64(p, z, 0x1.3b1ae582e4e12p-4);
  p = fma_f64(p, z, -0x1.555cfafa1be85p-4);
  p = fma_f64(p, z, 0x1.745cd86671777p-4);
  p = fma_f64(p, z, -0x1.9999565f6f57fp-4);
  p = fma_f64(p, z, 0x1.c71c730e2e318p-4);
  p = fma_f64(p, z, -0x1.000000b0cf3edp-3);
  p = fma_f64(p, z, 0x1.24924922c40dap-3);
  p = fma_f64(p, z, -0x1.55555553583bap-3);
  p = fma_f64(p, z, 0x1.999999999be30p-3);
  p = fma_f64(p, z, -0x1.00000000014e6p-2);
  p = fma_f64(p, z, 0x1.555555555554fp-2);
  p = fma_f64(p, z, -0x1.ffffffffffff8p-2);
  return p;
}

/// (sin(x) - x) / x^3 for z = x^2, |x| <= pi/4; error 2^-57.9.
static inline double sine_tail_f64(double z) {
  double p = 0x1.5d8d16251620fp-33;
  p = fma_f64(p, z, -0x1.ae5e50f2facc0p-26);
  p = fma_f64(p, z, 0x1.71de355b25330p-19);
  p = fma_f64(p, z, -0x1.a01a019bee91cp-13);
  p = fma_f64(p, z, 0x1.111111110f74bp-7);
  p = fma_f64(p, z, -0x1.5555555555548p-3);
  return p;
}

/// (cos(x) - 1 + x^2/2) / x^4 for z = x^2, |x| <= pi/4; error 2^-64.1.
static inline double cosine_tail_f64(double z) {
  double p = -0x1.8fa8985847226p-37;
  p = fma_f64(p, z, 0x1.1ee9dfb7cf91ep-29);
  p = fma_f64(p, z, -0x1.27e4f7f6ea6fcp-22);
  p = fma_f64(p, z, 0x1.a01a019c95689p-16);
  p = fma_f64(p, z, -0x1.6c16c16c1503fp-10);
  p = fma_f64(p, z, 0x1.555555555554bp-5);
  return p;
}

/// (atan(x) - x) / x^3 for z = x^2, |x| <= tan(pi/8); error 2^-59.3.
static inline double atan_tail_f64(double z) {
  double p = -0x1.243a92bcc3ebbp-6;
  p = fma_f64(p, z, 0x1.3747e35ca86f8p-5);
  p = fma_f64(p, z, -0x1.9c998e73fd449p-5);
  p = fma_f64(p, z, 0x1.df023e52b9dfbp-5);
  p = fma_f64(p, z, -0x1.10eacb3043a5dp-4);
  p = fma_f64(p, z, 0x1.3b110373ab256p-4);
  p = fma_f64(p, z, -0x1.745cf796540fbp-4);
  p = fma_f64(p, z, 0x1.c71c70da11db4p-4);
  p = fma_f64(p, z, -0x1.249249228c5f9p-3);
  p = fma_f64(p, z, 0x1.999999999529ep-3);
  p = fma_f64(p, z, -0x1.555555555553ap-2);
  return p;
}

/// (asin(x) - x) / x^3 for z = x^2, |x| <= 1/2; error 2^-59.8.
static inline double asin_tail_f64(double z) {
  double p = 0x1.0aada7a3922bbp-5;
  p = fma_f64(p, z, -0x1.5610548a49ef3p-6);
  p = fma_f64(p, z, 0x1.623e584be5d59p-6);
  p = fma_f64(p, z, 0x1.ea75faba3ae50p-9);
  p = fma_f64(p, z, 0x1.60f08c8100624p-7);
  p = fma_f64(p, z, 0x1.7592f53f16688p-7);
  p = fma_f64(p, z, 0x1.ca1df1df12a78p-7);
  p = fma_f64(p, z, 0x1.1c4a00f13a1aap-6);
  p = fma_f64(p, z, 0x1.6e8bde0160737p-6);
  p = fma_f64(p, z, 0x1.f1c71a9c1b17dp-6);
  p = fma_f64(p, z, 0x1.6db6db72028b6p-5);
  p = fma_f64(p, z, 0x1.333333332e210p-4);
  p = fma_f64(p, z, 0x1.5555555555577p-3);
  return p;
}

/// (erf(x) - x) / x for z = x^2, |x| <= 1; error 2^-56.5.
static inline double erf_tail_f64(double z) {
  double p = 0x1.259815030e90fp-34;
  p = fma_f64(p, z, -0x1.450d76b1c556dp-30);
  p = fma_f64(p, z, 0x1.fc0480a8c8f52p-27);
  p = fma_f64(p, z, -0x1.5f8d8a565f311p-23);
  p = fma_f64(p, z, 0x1.b9ed5d0aba330p-20);
  p = fma_f64(p, z, -0x1.f4d31c1021019p-17);
  p = fma_f64(p, z, 0x1.f9a3341068508p-14);
  p = fma_f64(p, z, -0x1.c02db491adafep-11);
  p = fma_f64(p, z, 0x1.565bcd126b53cp-8);
  p = fma_f64(p, z, -0x1.b82ce312ab00bp-6);
  p = fma_f64(p, z, 0x1.ce2f21a04360ep-4);
  p = fma_f64(p, z, -0x1.812746b0379fdp-2);
  p = fma_f64(p, z, 0x1.06eba8214db69p-3);
  return p;
}

/// -log(erfc(z + 2)) for -1 <= z <= 4; error 2^-59.2.
static inline double log_erfc_f64(double z) {
  double p = 0x1.9d4a4a2e580f2p-43;
  p = fma_f64(p, z, -0x1.355220d136fedp-39);
  p = fma_f64(p, z, 0x1.8b0a6e1ddd479p-37);
  p = fma_f64(p, z, -0x1.175f7d4dfb0c1p-35);
  p = fma_f64(p, z, 0x1.2be4560bdac2cp-35);
  p = fma_f64(p, z, 0x1.1fd5ab2239a63p-32);
  p = fma_f64(p, z, -0x1.59e1ec446fe56p-29);
  p = fma_f64(p, z, 0x1.dff719e294cd6p-27);
  p = fma_f64(p, z, -0x1.f0b6de506d796p-25);
  p = fma_f64(p, z, 0x1.73ea34da46944p-23);
  p = fma_f64(p, z, -0x1.b5479f0c62824p-23);
  p = fma_f64(p, z, -0x1.060474c4f6846p-19);
  p = fma_f64(p, z, 0x1.5b656cfd7590bp-16);
  p = fma_f64(p, z, -0x1.1bc3a5efe57ccp-13);
  p = fma_f64(p, z, 0x1.7ffcfb4c97c9fp-11);
  p = fma_f64(p, z, -0x1.d406b373a856cp-9);
  p = fma_f64(p, z, 0x1.0dc3b5fb0b818p-6);
  p = fma_f64(p, z, 0x1.d8f5dece9234bp-1);
  p = fma_f64(p, z, 0x1.1ac3258a8dc2ep+2);
  p = fma_f64(p, z, 0x1.575b329b1f516p+2);
  return p;
}

/// erfc(x) exp(x^2) (x + 4) for z = (x - 4) / (x + 4), 0 <= x <= 27.4; error 2^-54.1.
static inline double erfc_factor_f64(double z) {
  double p = 0x1.ca5c7898d2033p-31;
  p = fma_f64(p, z, -0x1.f556ee39d91d5p-31);
  p = fma_f64(p, z, -0x1.06f8d62785e31p-26);
  p = fma_f64(p, z, 0x1.1a8a38a339f53p-28);
  p = fma_f64(p, z, 0x1.0baae963666bfp-23);
  p = fma_f64(p, z, -0x1.56abfebec4993p-24);
  p = fma_f64(p, z, -0x1.c6ea17d6a0ce5p-21);
  p = fma_f64(p, z, 0x1.7f22a3a93b571p-20);
  p = fma_f64(p, z, 0x1.3b1b895a9d964p-18);
  p = fma_f64(p, z, -0x1.3c74ca5f78cd9p-16);
  p = fma_f64(p, z, -0x1.e7fa05d7cc8ecp-19);
  p = fma_f64(p, z, 0x1.72cddd690c5d9p-13);
  p = fma_f64(p, z, -0x1.dd283af1a6f0ep-12);
  p = fma_f64(p, z, -0x1.269b56d13d0c2p-12);
  p = fma_f64(p, z, 0x1.908f470499159p-8);
  p = fma_f64(p, z, -0x1.b00c052a43feep-6);
  p = fma_f64(p, z, 0x1.38dbd2c91d52ap-4);
  p = fma_f64(p, z, -0x1.645fd8a4bf9a1p-3);
  p = fma_f64(p, z, 0x1.52cac2370f210p-2);
  p = fma_f64(p, z, -0x1.14eacb1ad02ddp-1);
  p = fma_f64(p, z, 0x1.8be202d26c740p-1);
  p = fma_f64(p, z, -0x1.f3fe31ecb49c0p-1);
  p = fma_f64(p, z, 0x1.18932bf08e154p+0);
  return p;
}

/// erf_inv(x) / x for z = log2(1 - x^2), -7.3 <= z <= 0; error 2^-23.2.
static inline float erf_inv_near_f32(float z) {
  float p = 0x1.7af1b2p-30F;
  p = fma_f32(p, z, 0x1.d5e57ap-27F);
  p = fma_f32(p, z, -0x1.249be6p-21F);
  p = fma_f32(p, z, -0x1.78319ep-17F);
  p = fma_f32(p, z, -0x1.496534p-15F);
  p = fma_f32(p, z, 0x1.90a6bcp-11F);
  p = fma_f32(p, z, 0x1.6b0f0ep-8F);
  p = fma_f32(p, z, -0x1.495d00p-3F);
  p = fma_f32(p, z, 0x1.c5bf86p-1F);
  return p;
}

/// erf_inv(x) / x for z = sqrt(-log2(1 - x^2)) - 3, -23 <= log2(1 - x^2) <= -7.3; error 2^-23.9.
static inline float erf_inv_far_f32(float z) {
  float p = -0x1.8221d8p-15F;
  p = fma_f32(p, z, 0x1.05481ep-12F);
  p = fma_f32(p, z, -0x1.175c14p-13F);
  p = fma_f32(p, z, -0x1.30bc16p-9F);
  p = fma_f32(p, z, 0x1.273a90p-7F);
  p = fma_f32(p, z, -0x1.27a27ap-6F);
  p = fma_f32(p, z, 0x1.920f78p-6F);
  p = fma_f32(p, z, 0x1.a2a3fcp-1F);
  p = fma_f32(p, z, 0x1.2ab512p+1F);
  return p;
}

/// (tanh(x) - x) / x^3 for z = x^2, |x| <= 0.4; error 2^-16.9.
static inline float tanh_half_tail_f32(float z) {
  float p = 0x1.f3d49ap-4F;
  p = fma_f32(p, z, -0x1.54c3c0p-2F);
  return p;
}

/// erf(x) / x for z = x^2, |x| <= 0.5; error 2^-16.5.
static inline float erf_half_quotient_f32(float z) {
  float p = 0x1.a6e6f2p-4F;
  p = fma_f32(p, z, -0x1.803d5ap-2F);
  p = fma_f32(p, z, 0x1.20dca2p+0F);
  return p;
}

/// log2(erfc(z)) / z for 0.5 <= z <= 4; error 2^-20.5.
static inline float erfc_half_log2_f32(float z) {
  float p = -0x1.719e98p-9F;
  p = fma_f32(p, z, 0x1.daec1cp-6F);
  p = fma_f32(p, z, -0x1.2e60c0p-3F);
  p = fma_f32(p, z, -0x1.d6a3aap-1F);
  p = fma_f32(p, z, -0x1.a0b240p+0F);
  return p;
}

/// erfc(x) exp(x^2) / z for z = 1 / (x + 3/2), 0 <= x <= 10.2; error 2^-15.9.
static inline float erfc_half_factor_f32(float z) {
  float p = 0x1.be799ap+0F;
  p = fma_f32(p, z, -0x1.cc82f2p+1F);
  p = fma_f32(p, z, 0x1.97f3fep+0F);
  p = fma_f32(p, z, 0x1.ae699cp-1F);
  p = fma_f32(p, z, 0x1.b6c9a6p-1F);
  p = fma_f32(p, z, 0x1.20b6a6p-1F);
  return p;
}

/// (log(1 + z) - z) / z^2 for |z| <= 1/4; error 2^-19.3.
static inline float log_half_tail_f32(float z) {
  float p = -0x1.6c2944p-3F;
  p = fma_f32(p, z, 0x1.b49e00p-3F);
  p = fma_f32(p, z, -0x1.ff98c8p-3F);
  p = fma_f32(p, z, 0x1.5510c8p-2F);
  p = fma_f32(p, z, -0x1.ffffdep-2F);
  return p;
}

/// log2(1 + z) / z for sqrt(1/2) <= 1 + z <= sqrt(2); error 2^-40.4.
static inline double pow_log2_f64(double z) {
  double p = 0x1.f823aacd59788p-5;
  p = fma_f64(p, z, -0x1.f40694c536a38p-4);
  p = fma_f64(p, z, 0x1.028fe79382d0bp-3);
  p = fma_f64(p, z, -0x1.eb99f2b791cd6p-4);
  p = fma_f64(p, z, 0x1.08914c62d7d18p-3);
  p = fma_f64(p, z, -0x1.2715d295d2b3fp-3);
  p = fma_f64(p, z, 0x1.4889ade7edd4fp-3);
  p = fma_f64(p, z, -0x1.715cab4164dbep-3);
  p = fma_f64(p, z, 0x1.a61575ad533c6p-3);
  p = fma_f64(p, z, -0x1.ec705a9aac894p-3);
  p = fma_f64(p, z, 0x1.2776c8b5f577bp-2);
  p = fma_f64(p, z, -0x1.715476becc364p-2);
  p = fma_f64(p, z, 0x1.ec709dbe42b8dp-2);
  p = fma_f64(p, z, -0x1.7154765288ab9p-1);
  p = fma_f64(p, z, 0x1.71547652b886bp+0);
  return p;
}

/// 2^z for |z| <= 1/2; error 2^-34.5.
static inline double pow_exp2_f64(double z) {
  double p = 0x1.fde104550cae3p-17;
  p = fma_f64(p, z, 0x1.4469d4bb07451p-13);
  p = fma_f64(p, z, 0x1.5d8a9fd066969p-10);
  p = fma_f64(p, z, 0x1.3b29dcb126d3ep-7);
  p = fma_f64(p, z, 0x1.c6b08a80818f0p-5);
  p = fma_f64(p, z, 0x1.ebfbe0a416f68p-3);
  p = fma_f64(p, z, 0x1.62e42ff12cff3p-1);
  p = fma_f64(p, z, 0x1.ffffffffac502p-1);
  return p;
}

/// (atanh(x) - x - x^3/3) / x^5 for z = x^2, |x| <= 0.172; error 2^-66.1.
static inline double atanh_tail_f64(double z) {
  double p = 0x1.0e85bd17cab8dp-4;
  p = fma_f64(p, z, 0x1.0f789a0625f0ep-4);
  p = fma_f64(p, z, 0x1.3b1f3dbe8ac45p-4);
  p = fma_f64(p, z, 0x1.745ce812b79a2p-4);
  p = fma_f64(p, z, 0x1.c71c7232e34b7p-4);
  p = fma_f64(p, z, 0x1.2492492453b4ap-3);
  p = fma_f64(p, z, 0x1.9999999999b56p-3);
  return p;
}

/// the cube root of z for 1 <= z <= 8; error 2^-8.7.
static inline float cbrt_start_f32(float z) {
  float p = -0x1.8875a0p-12F;
  p = fma_f32(p, z, 0x1.18f090p-7F);
  p = fma_f32(p, z, -0x1.3efa44p-4F);
  p = fma_f32(p, z, 0x1.be942cp-2F);
  p = fma_f32(p, z, 0x1.45b564p-1F);
  return p;
}

/// the cube root of z for 1 <= z <= 8; error 2^-8.7.
static inline double cbrt_start_f64(double z) {
  double p = -0x1.8875974597dc0p-12;
  p = fma_f64(p, z, 0x1.18f08c3aae0f6p-7);
  p = fma_f64(p, z, -0x1.3efa41cc2625fp-4);
  p = fma_f64(p, z, 0x1.be942b3993b0dp-2);
  p = fma_f64(p, z, 0x1.45b564094445bp-1);
  return p;
}
