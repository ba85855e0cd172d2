// The results of other programs for the image noise(width, height, channels), written by
// make_vectors.py with Pillow 13.0.0, torch 2.13.0+cpu, torchvision 0.29.2+cu132.

#pragma once

#include <cstdint>
#include <string_view>

#include "media/transform/pixels.h"
#include "media/transform/resize.h"
#include "media/transform/warp.h"

// clang-format off
namespace energon::testing {

struct PillowResize {
  std::int64_t width, height;
  FractionalBox box;
  std::int64_t to_width, to_height;
  ResizeFilter filter;
  std::uint64_t digest;  // XXH3-64 of the results with 1, 3 and 4 channels
};

struct TorchResize {
  std::int64_t width, height, to_width, to_height;
  ResizeFilter filter;
  bool antialias;
  std::string_view result;  // base64
};

struct Rotated {
  WarpFilter filter;
  double degrees;
  std::string_view result;
};

struct Recolored {
  std::string_view change;
  double factor;
  std::string_view result;
};

// Image.resize(size, filter, box) of modes L, RGB, CMYK.
inline constexpr PillowResize kPillowResizes[] = {
    {17, 13, {0, 0, 17, 13}, 7, 5, ResizeFilter::kNearest, 0xEDF8B8F700300913},
    {17, 13, {0, 0, 17, 13}, 7, 5, ResizeFilter::kBox, 0x04AE9BEA21EFE57E},
    {17, 13, {0, 0, 17, 13}, 7, 5, ResizeFilter::kBilinear, 0x0E53A955077D4BCD},
    {17, 13, {0, 0, 17, 13}, 7, 5, ResizeFilter::kBicubic, 0x41AC9722D79D7541},
    {17, 13, {0, 0, 17, 13}, 30, 20, ResizeFilter::kNearest, 0x073ECB511F7A1291},
    {17, 13, {0, 0, 17, 13}, 30, 20, ResizeFilter::kBox, 0x073ECB511F7A1291},
    {17, 13, {0, 0, 17, 13}, 30, 20, ResizeFilter::kBilinear, 0x52F240801B3D0DBE},
    {17, 13, {0, 0, 17, 13}, 30, 20, ResizeFilter::kBicubic, 0x65CFF2983D629D27},
    {17, 13, {0, 0, 17, 13}, 17, 6, ResizeFilter::kNearest, 0x9BC57C5F85EB3055},
    {17, 13, {0, 0, 17, 13}, 17, 6, ResizeFilter::kBox, 0x88A5CEC3BB58A662},
    {17, 13, {0, 0, 17, 13}, 17, 6, ResizeFilter::kBilinear, 0x7EC16F3BB2A8ACD2},
    {17, 13, {0, 0, 17, 13}, 17, 6, ResizeFilter::kBicubic, 0x6FCFD89051979722},
    {17, 13, {0, 0, 17, 13}, 5, 13, ResizeFilter::kNearest, 0x1AB5F715AE986AAB},
    {17, 13, {0, 0, 17, 13}, 5, 13, ResizeFilter::kBox, 0xEEE5D31F3287F3BE},
    {17, 13, {0, 0, 17, 13}, 5, 13, ResizeFilter::kBilinear, 0x4C8BD8EFAD908A31},
    {17, 13, {0, 0, 17, 13}, 5, 13, ResizeFilter::kBicubic, 0x875071AB81CD841C},
    {17, 13, {0, 0, 17, 13}, 1, 1, ResizeFilter::kNearest, 0x8C5044FFC4AF8FD2},
    {17, 13, {0, 0, 17, 13}, 1, 1, ResizeFilter::kBox, 0xD18822BA636B6DCD},
    {17, 13, {0, 0, 17, 13}, 1, 1, ResizeFilter::kBilinear, 0xBF76A588A9901EB2},
    {17, 13, {0, 0, 17, 13}, 1, 1, ResizeFilter::kBicubic, 0x34A9DC990A4382F5},
    {17, 13, {0, 0, 17, 13}, 40, 3, ResizeFilter::kNearest, 0xBE14D62368B6BC6F},
    {17, 13, {0, 0, 17, 13}, 40, 3, ResizeFilter::kBox, 0x4AEACB8B09F88D41},
    {17, 13, {0, 0, 17, 13}, 40, 3, ResizeFilter::kBilinear, 0xF332AF21357F0AB1},
    {17, 13, {0, 0, 17, 13}, 40, 3, ResizeFilter::kBicubic, 0x1DBB1CFA0D8456E0},
    {17, 13, {2, 1, 13, 11}, 9, 4, ResizeFilter::kBox, 0xE7BB5EDB973049CF},
    {17, 13, {2, 1, 13, 11}, 9, 4, ResizeFilter::kBilinear, 0x89630D4C5D8130F6},
    {17, 13, {2, 1, 13, 11}, 9, 4, ResizeFilter::kBicubic, 0x16B4093D2506BA3A},
    {17, 13, {3.25, 0.5, 9.5, 10.625}, 8, 9, ResizeFilter::kBox, 0x2F3DE4D6257E5B0D},
    {17, 13, {3.25, 0.5, 9.5, 10.625}, 8, 9, ResizeFilter::kBilinear, 0xE5D6553333CF6DED},
    {17, 13, {3.25, 0.5, 9.5, 10.625}, 8, 9, ResizeFilter::kBicubic, 0x662EAA6F7E74550F},
    {67, 45, {0, 0, 67, 45}, 24, 33, ResizeFilter::kNearest, 0x767E86D4751A02F9},
    {67, 45, {0, 0, 67, 45}, 24, 33, ResizeFilter::kBox, 0xA5BBEEEF8EE8C5CB},
    {67, 45, {0, 0, 67, 45}, 24, 33, ResizeFilter::kBilinear, 0x347EA02F0BB540DE},
    {67, 45, {0, 0, 67, 45}, 24, 33, ResizeFilter::kBicubic, 0x6D2FDD00C212DB22},
    {67, 45, {0, 0, 67, 45}, 100, 71, ResizeFilter::kNearest, 0xC088E0B8C5C0C5B1},
    {67, 45, {0, 0, 67, 45}, 100, 71, ResizeFilter::kBox, 0xC088E0B8C5C0C5B1},
    {67, 45, {0, 0, 67, 45}, 100, 71, ResizeFilter::kBilinear, 0xE81BFE233DA867F0},
    {67, 45, {0, 0, 67, 45}, 100, 71, ResizeFilter::kBicubic, 0xFE22DCB1F52AF58E},
    {67, 45, {10, 5, 50, 35}, 28, 28, ResizeFilter::kBox, 0x6E9EFE33889BF789},
    {67, 45, {10, 5, 50, 35}, 28, 28, ResizeFilter::kBilinear, 0x50D9CC99B457FD83},
    {67, 45, {10, 5, 50, 35}, 28, 28, ResizeFilter::kBicubic, 0x89DC3FE1C5D9A1C3},
    {2, 3, {0, 0, 2, 3}, 9, 8, ResizeFilter::kNearest, 0x56AE8658FF2C9C29},
    {2, 3, {0, 0, 2, 3}, 9, 8, ResizeFilter::kBox, 0x56AE8658FF2C9C29},
    {2, 3, {0, 0, 2, 3}, 9, 8, ResizeFilter::kBilinear, 0x8DC298CE74F3E980},
    {2, 3, {0, 0, 2, 3}, 9, 8, ResizeFilter::kBicubic, 0x7D582B044D67ED5B},
    {1, 1, {0, 0, 1, 1}, 5, 4, ResizeFilter::kNearest, 0x6D60F125AD3FAF6F},
    {1, 1, {0, 0, 1, 1}, 5, 4, ResizeFilter::kBox, 0x6D60F125AD3FAF6F},
    {1, 1, {0, 0, 1, 1}, 5, 4, ResizeFilter::kBilinear, 0x6D60F125AD3FAF6F},
    {1, 1, {0, 0, 1, 1}, 5, 4, ResizeFilter::kBicubic, 0x6D60F125AD3FAF6F},
    {640, 7, {0, 0, 640, 7}, 3, 5, ResizeFilter::kNearest, 0xA18569D9F6BE6B0C},
    {640, 7, {0, 0, 640, 7}, 3, 5, ResizeFilter::kBox, 0xEFABB663AC2F4B4A},
    {640, 7, {0, 0, 640, 7}, 3, 5, ResizeFilter::kBilinear, 0xD832E812A5FF5CE5},
    {640, 7, {0, 0, 640, 7}, 3, 5, ResizeFilter::kBicubic, 0xD93F005DA4341153},
    {5, 500, {0, 0, 5, 500}, 6, 2, ResizeFilter::kNearest, 0x57643D840F4A51BB},
    {5, 500, {0, 0, 5, 500}, 6, 2, ResizeFilter::kBox, 0x25B7582443A047D1},
    {5, 500, {0, 0, 5, 500}, 6, 2, ResizeFilter::kBilinear, 0xDA43165F1134B6B3},
    {5, 500, {0, 0, 5, 500}, 6, 2, ResizeFilter::kBicubic, 0xEDFA7A6C0D852EF6},
};

// interpolate() of uint8, 3 channels.
inline constexpr TorchResize kTorchByteResizes[] = {
    {17, 13, 7, 6, ResizeFilter::kBilinear, true,
     "kHSXemFzkZhyao1ghrObZ7yBp5hda22xamahem9raZZlT4GAeblrkZpdm41xdGtki3V2cbp2c3qSck95l3Kaf3SBiltlqpZ0c4eFXoxtk2BhjJeHb4Z3iGZxl4eNkYSRiqOhkIp9rHCjiHt7cVpmZIOSbKN+doChc2eEkXes"},
    {17, 13, 7, 6, ResizeFilter::kBilinear, false,
     "moKOL09AmbV+HqJPqcSjX8uexJ1tSGrXbp/Oik9EWdEpN2KJz81mno9uepqNcbRFeIWKi9CljF2xVB9Oo1Tmbz2juRop4LyRqIKxL8IpzTpdocS6mI19wqNrqoWPoWCGqMKgVYVsunqjlXuQf0BBZVmOZJoygXuvNj2Foomi"},
    {17, 13, 7, 6, ResizeFilter::kBicubic, true,
     "k3Sae15vkp9xaIRbjbylXr+BrZNaZ2u4aWGqd29obZVmRnx+eMVok5tap5RrbGZcjnB7cMl1dXmVbEF2nHCffHOFiFZitZxta4GHXI1pmFhbi56GaIx4iF9unIqRlYGWiailkJF8sGmqjHx9b1NhX4KUaK58d3ykcWN+kHex"},
    {17, 13, 7, 6, ResizeFilter::kBicubic, false,
     "pIiKD0omlMCHCaJWw9OlWdOr25xxOmTteLzkkj80YM8fK1aE+tRcsot7Yp2casY+bo2Yks6rlUm9ThtBqU73YR2pxQQX/M6Wrn24IOEQ3zdgs9bUsZqF2MRppoaSo1+RrtecOZNxv4OslnyjhjIxYjOEVpsgiX26HSuFrouk"},
    {5, 4, 9, 7, ResizeFilter::kBilinear, true,
     "QZYnbbdMte6JzdCo2Zy/aUtwERw5HHhkI699cLFkkMZ/xOqqyMChwIGJZFRbIDpDQm1+Voyiu93Gx9/Q3OTfwKWUmFUzW2M6OGtSflypqVTd3ungyObepOPag7akYn9hVYtOU4pGflFqmC+A7u7qvubdcNvITsGzN6SeValqb5w9fUYthhIjp+TJqse4r5icj3asZlfHe2WTk2hpuDtkzR9get60nbSh12+AuEingyjgkzutqUeF3DSG+iiH"},
    {5, 4, 9, 7, ResizeFilter::kBilinear, false,
     "QZYnbbdMte6JzdCo2Zy/aUtwERw5HHhkI699cLFkkMZ/xOqqyMChwIGJZFRbIDpDQm1+Voyiu93Gx9/Q3OTfwKWUmFUzW2M6OGtSflypqVTd3ungyObepOPag7akYn9hVYtOU4pGflFqmC+A7u7qvubdcNvITsGzN6SeValqb5w9fUYthhIjp+TJqse4r5icj3asZlfHe2WTk2hpuDtkzR9get60nbSh12+AuEingyjgkzutqUeF3DSG+iiH"},
    {5, 4, 9, 7, ResizeFilter::kBicubic, true,
     "K4cQXLE4tvaD4+W536LLaDVxBQgvDn9cGcV6XqdShMRzy/Kr38yryIGNXkFSEiw7OnKCVpytut7HyuXY5erszqSWmVErTFsiLm5PhVu5uVHz8u/v1/Dxnu3rdrqmWYJTR5c4T5s/gkpsoB2E+vDvyuvjZt7KOsS4MqqgULdpcaY3fT0hgwIWnuvLqcy1tZGSkWmtZlTPdmWdmGlpwjVg1hhdZue1lrma6WRzyjOmih3mjDG4rEKH6jKL/yiQ"},
    {5, 4, 9, 7, ResizeFilter::kBicubic, false,
     "JoMKX7U3s/d97u7C4KTOai1zAAYrBnVVFsx6YKhXjsp8zvOv6syux3yFWzpJEC89OG2DXpy4ttzEzefb5+7v1KKWnFArR1YXLWxSfV60u1P4+/L32fX6nvT1brulVIRMQJ4tT58/gE9ooxaG+vDww+rhaN/KMsK6MaqiTrtrdaM1f0IfgwAUpO7PrMy1r5iVhmywYVvPb26emWxjvDlXzxNUYeu0nLWV7GRwzyqmixvnhi69r0GH6TSL/yiS"},
};

// interpolate() of level / 256 as float32, 1 channel.
inline constexpr TorchResize kTorchFloatResizes[] = {
    {17, 13, 7, 6, ResizeFilter::kBilinear, true,
     "nvkkP7sDLj85aP4+sz7OPm3Vpj4nRzA/HBkzP4XBCj96rg0/6JjoPrG6vD6Mv74+gPINP9il8D6+BBo/Ue/3Pkca9z6nfQk/aYYaP/uFAD/K7cw+KaosPyBSyD441RQ/6E8iP8BHHz+8gNw+9Rb8PiiqDT9iGOw+iUfjPunw5j5g0e8+4w8APzmO1j6wEAk/+lEPP31oCT+tApA+X86oPuat5j4k2/4+"},
    {17, 13, 7, 6, ResizeFilter::kBilinear, false,
     "MYw1P0mSVT/aNt8+VdUTP2EYtD5YFU8/9LxGPyVJyz4kyRg/AQA7PwCABD9JErU+1jbYPibJBj8Qw00/iWEyPwWAFz/y/yo+TJIgP3Ee0D4Qht892jZDP6bnFj58HiA/VZVHP8+zQj9Q1ZQ+McwUPwBAKj+SpIc+su3FPgCALz9J0hU/JgkFP7httD66be8+SNI+PyPJNj8EAPg9hOGpPmAYyz5XVeU+"},
    {17, 13, 7, 6, ResizeFilter::kBicubic, true,
     "y9slP2kKND8isAI/AUPGPtSVmD6AFzk/ysM4P4xhCz8aZA8/N7rmPnDjpj4PYLg+Mc4WP8hb4z6DIho/WzTyPvHe5z4Vrgw/ZrsfPyA2+T5dCMg+lGs2P76ntj67WR4/tK0oPyYJKD+vLtQ+Vd4AP0RfDD+pp+Y+M2jePmDn3z6pDfE+2JQFPwLmyT6nigk/LAkRPydDDj/Kc3Q+OtuePqx+6j6ufQE/"},
    {17, 13, 7, 6, ResizeFilter::kBicubic, false,
     "MgQ8P79RYT/u670+tDsSP5Ksxz67bFs/5/VWPypCrD6HSR8/bkxuPwCW/T6SuLM+H37DPiwFHT/qUF4/3GRFPzYuFT8hZ/s9QoYWP2DjuD4epIC8mBRDPwx3vj2gkiA/B8RIP0gGWT/cI5U+BrAlP6pzND/Pywc+oOy2PgCZNz96bzE/j/AKP+HtmD6Oksc+hxhZPzOkWz92jCo9pNG2PgcUxD4MJr0+"},
    {5, 4, 9, 7, ResizeFilter::kBilinear, true,
     "AACCPququj45jgw/VFXJPgAAHD7Mcfw+j+NJP1ZVZz8AAHk/AQC+Pnue8j6jKCU/IIgEP0qSoT43zQ8/EAQ/PxcGLz+2bSU/AAAPP0oSJj8Yhkw/EIQ3P5OkEz+47Ss/ep4tP2bbqT7Xtv09AACfPquqwj5yHP4+qqroPgAAvz50HBA/x3EqP1FV1z4AAIw+OEm6PS9JED4ihmU+v21dPgkAPj7jtvA++H0tP/S8Ez8mSQQ/S5IBP5SkDD9kGB8/+v0bPwKAEz/6/TQ/ft9NPz5PRD9Kkj4/AABEPwAATj+rql4/juNaPwAAUj+O41o/cRxiP6uqYj8AAGM/"},
    {5, 4, 9, 7, ResizeFilter::kBilinear, false,
     "AACCPququj45jgw/VFXJPgAAHD7Mcfw+juNJP1ZVZz8AAHk/AAC+Pnue8j6jKCU/IIgEP0qSoT43zQ8/EAQ/PxcGLz+2bSU/AAAPP0kSJj8Zhkw/EIQ3P5OkEz+37Ss/ep4tP2fbqT7Xtv09/v+ePqmqwj5wHP4+qKroPv//vj5zHBA/xnEqP1FV1z4CAIw+OEm6PTBJED4jhmU+wG1dPgkAPj7jtvA++H0tP/S8Ez8mSQQ/S5IBP5SkDD9kGB8/+v0bPwKAEz/6/TQ/f99NPz5PRD9Lkj4/AABEP///TT+sql4/juNaPwAAUj+O41o/chxiP6qqYj8BAGM/"},
    {5, 4, 9, 7, ResizeFilter::kBicubic, true,
     "jTtNPgs+rD5L/Q4/tuK3Pva/7T1c1OI+DTVRP5qtfT90rYg/fy2yPmLF8j7Gni4/J8EFP5brnT6OJw0/EopGP47pNz9uaSw/TswPP4LqKj9RiVg/Hv1BP99rGj+Mujc/Nyo0P2qEjD4apgY9QZ+JPnzasT5j//Y+RmbcPgDAtz4z1BQ/Zi0tPwMLsD76ghk+TkgxPTXixz004kU+8cAlPt/QHD6+te8+wWozP4HUFT/6bQE/H/ADP0mzDz8BQiQ/YkcfP1SFGD8dJTk/Or9TP8EETT8MnEc//15QPxRkWz8MeG4/WcBqP9nhXz9/KGI/BbVmP3jpaT+GgGs/"},
    {5, 4, 9, 7, ResizeFilter::kBicubic, false,
     "DLQ/PvfLtD5PBQ8/YDivPi4i2z0gVNI+CZdWPwHjgD/07Is/iAK8PmoMBT9VGDY/tyQMP9CdrD4f/w4/XXFHP+PfMj9KMh8/hYYPPxNrMD/4z1o/wjVEPxzlGj9Xszs/r/YyP1D4nD71fsk8+DyBPoC2sD6h+e8+CT7VPv8ftD4qBRc/w7kqPz1rrj7jrsM9aJ8nPc+h1D1D9UI+eH8aPsqxHT6bUvA+BnU2P2CPHD/PwQM/x9bxPsWcBj/JTBk/n88TP73tDj/nLzM/FBtTPwlSTT+PI0Y/B4VTP3eEYD/n83E/1SlvP+ZcYz9PfGM/StxnP+1qaz8ou20/"},
};

// rotate() of the pixels [0, 11) x [0, 9) of noise(17, 13, 3), fill 0.
inline constexpr Rotated kRotated[] = {
    {WarpFilter::kNearest, 31.0,
     "AAAAAAAAAAAAxOLS4uPprTAFFMJZuuWKPBOfPBTOAAAAAAAAAAAAI699xOLSM+82rTAFOh7+080eRi3IPBTOAAAA2Zy/DwoxOHVJj0ggbvL9srcQhH0OMNIs0pUm0pUml6aGn0uF+iiH25n+IDdgSD5NtRAgolVGZPHxl86qTfswcMBWn0uF5hzI5hzIV6XINae4rGbLZIXlzLMdP/BeP/Bech/DEe7gSlHkGCakQw9CTV3HLhqXiY4U8WFBleFwq4a+ch/De8belr0wlr0w5m9egd41A1INtieC0Z9RbJ7cAMEsilohAAAA3bJ9TI6clIyPg2F60hAhK1oEnJi24+ofAAAAAAAAAAAA3bJ9ExWI094NecCY0hAhnxlcnJi2AAAAAAAAAAAA"},
    {WarpFilter::kNearest, -140.0,
     "AAAAAAAAAAAAnxlcqxS3ecCYlIyP094N3bJ9AAAAAAAAAAAAAAAAnJi2nJi2K1oEg2F6lIyP5m9elr0w65GhAAAAAAAAAMEs0Z9R+uDvA1INA1INgd41wEAtlr0wSlHkEe7gilohbJ7cbJ7c8WFBiY4ULhqXTV3HV6XIGCakGhGlGhGlch/Dq4a+leFwzLMdZIXlrGbLNae4V6XI25n++iiHn0uFHgbNHgbNl86qzLMdolVGtRAgSD5NIDdgOHVJOHVJ2Zy/cMBWTfsw0pUmCOZ0hH0OsrcQsrcQvx49j0ggDwoxAAAAAAAAFSTr0pUmMNIs080eOh7+M+82xOLSxOLSAAAAAAAAAAAAAAAAPBTOuuWK080eFMJZk1Ao4uPpAAAAAAAAAAAA"},
    {WarpFilter::kNearest, 90.0,
     "AAAAs03kDLNiuuWKRi3I0pUmTfswHgbNch/DLERvAAAAAAAALHVCFMJZ080eMNIsCOZ0l86qP/Beq4a+ilohAAAAAAAAk1AorTAFOh7+hH0OZPHxzLMdleFwbJ7cAMEsAAAAAAAA4uPpM+82srcQtRAgolVGZIXl8WFB0Z9R4+ofAAAAAAAAxOLSvx49bvL9SD5NrGbLiY4UtieC+uDvnJi2AAAAAAAAI699j0ggIDdgNae4TV3HLhqXA1INK1oEnxlcAAAAAAAADwoxOHVJ25n+V6XIQw9Cgd41g2F60hAhqxS3AAAAAAAA2Zy/+iiH5hzIGCakwEAt5m9elIyPecCYRMqoAAAAAAAAxPmVn0uFGhGlSlHklr0wTI6c094NNgKbtxYUAAAA"},
    {WarpFilter::kBilinear, 31.0,
     "AAAAAAAAAwUEcHt2ysW5mkQYL7dPec9rZVmdHwpgAAAAAAAABgsVHpdtrpKMabJHc3hOd2Wdh79GSC7HKx7aBAYoloCAaEhoTV4+hElEhMKxsIUafGQ6OcpIdqlRd4lyW2VlvYiQ6S6InoW1RFWGSICRhi5Bk3FhYuW6a9aQR8pUa6NwYUepkxm2klfLUKTESXy4rGbLhXCSrqdXhdhpN4mRUE2gLb3XQELVTjSDXC1US0yKX1RomW1i031Xg8aanpG5ZD+WX4KSnZ2Pooo9vnBJd7NJE0Q2plKC3pp3jax+SZdOUTwmKBkb4aKOX5SVsI5ujHGAbEMqcH5Rxrmzw84cCkkQAAAAAAAASz1CY2dgkoxXgq6OvBxlnRtpVTpSBQUDAAAAAAAA"},
    {WarpFilter::kBilinear, -140.0,
     "AAAAAAAAAQEBaBA+qxh9nHVqi5d6qb02tZyAUzs0AAAAAAAAGh4EjY1iooKSQ04KkUpZooV2n356k6hlzJ+xIC80EyMKLbUl18E76LS4Yk5ONlRRf8I4tEo6emxsWHngLcfFeVYybZSXmqWV6V5KnGZNVkp/SkOMUlaDPCysUR62TV25bjWueqmYgOJopqBxgXeYrGbLSH6uWJW903Xq6CSitGiKTm2JM2qbjNKXjdKFjIp+lC5AUoaVLktta2tmfVBm1au2bqJaZddRd8pSIt9yfI4om2A5jcd1o0VTXXdLESo7IBcgIiUiOUjOglx/PIdzhaNNYC+pTM0vsrOYaqCKBBQPAAAAAAAADwpQPxrHlquafctNVoE1n2Y7kZCTAgICAAAAAAAA"},
    {WarpFilter::kBilinear, 90.0,
     "AAAAs03kDLNiuuWKRi3I0pUmTfswHgbNch/DLERvAAAAAAAALHVCFMJZ080eMNIsCOZ0l86qP/Beq4a+ilohAAAAAAAAk1AorTAFOh7+hH0OZPHxzLMdleFwbJ7cAMEsAAAAAAAA4uPpM+82srcQtRAgolVGZIXl8WFB0Z9R4+ofAAAAAAAAxOLSvx49bvL9SD5NrGbLiY4UtieC+uDvnJi2AAAAAAAAI699j0ggIDdgNae4TV3HLhqXA1INK1oEnxlcAAAAAAAADwoxOHVJ25n+V6XIQw9Cgd41g2F60hAhqxS3AAAAAAAA2Zy/+iiH5hzIGCakwEAt5m9elIyPecCYRMqoAAAAAAAAxPmVn0uFGhGlSlHklr0wTI6c094NNgKbtxYUAAAA"},
};

// adjust_*() and rgb_to_grayscale() of noise(9, 7, 3).
inline constexpr Recolored kRecolored[] = {
    {"brightness", 0.0,
     "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
    {"brightness", 0.6,
     "J1oXdZVZgl1yCQYdFWlLdYd+h4iLWDAYGkYnay6IlI+OM4d5HWdbP2wjSwkQSYVsiDpJThiGXy1PlhhRIUYrVSsTchIkHo8gZxwDDHQ1B2s6X2YRY2OQT34eM4SUEY1JiG0zigwVCo6GDwpjihB4g1uYEyE5QpGXam0JIhKYfnsSb4lSJAtfSHtLJIo5aXF1VHoaV4g2b4IHSXaFLDCIDhZiNGN4H2RuKyUubAkTT0sIHH4aKht4JAx7DXcW"},
    {"brightness", 1.45,
     "Xtk4///Y/+L/FQ5HMv21////////1XQ6P6lf/2//////fP//R/rdmP9VtRcnsP///4ywvTr/5mzA/zrDUalpz2gu/ytYSf9O+kUHHf+BEf+O5vcq8PD/v/9JfP//Kv+y//98/x0yGP//JRjv/yj//93/Lk+Ln/////8XVCv///8r///IVxvmrv+2WP+J////y/8/0/+D//8Rsv//a3X/Ijftfu//TPL/aFlv/xcuv7UURf8/ZUH/Vx3/H/81"},
    {"contrast", 0.0,
     "hISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISEhISE"},
    {"contrast", 0.5,
     "Yo1VpL6MrpChSUdaU5mApLOrs7O2i2pWWHxjm2i0vbm5bbKnWpiOdpxfgEpPf7Gcs3J/g1aykWeEv1aFXnxmiWZSoVFgW7ldmFpETKNuSJtzkZdQlZW6hKtbbbC+ULd/s51ttUxTSrmyT0qUtVCmr47BUl1yebvAm51KX1HBq6hRn7SHYEuRfqmBYLVxmqCjiKhYi7Nvnq9If6WxZ2q0TlWUbZSmXJWeZmFonEpShIBJWqtYZVimYEypTaVU"},
    {"contrast", 1.7,
     "EaIA8P+g/6znAAAAAMx38P//////nSsAAGoT0yb/////Nf/6AMmnVdYHdwAAcv/V/0hygQD/sSKF/wCIAmoflh0A5wAKAP8AyQAAAO06ANNJscUAvb3/g/8ANf//AP90/9o1/wAAAP//AAC7/wD3/6f/AABGXv//0doABQD///8A3/+NCQCxb/95Cv9EzuTukf4Am/893f8AdPP/ISz/AAC6N7v3AL/cHQwm1gAAg3cAAP8AGgD3CQD/APUA"},
    {"saturation", 0.0,
     "b29v3d3dsrKyDw8Pf39/19fX4+PjX19fWVlZfHx88fHxtLS0hYWFkJCQMTExu7u7ioqKWFhYampqcXFxXV1dWFhYUVFRoaGhUFBQgoKCd3d3l5eXrq6uqampt7e3oKCgubm5VFRUqqqqJCQka2truLi4NDQ0y8vLoqKiPz8/urq6zc3NLy8vq6urpKSkubm5pqamu7u7uLi4srKyX19fMDAwkZGRhoaGQkJCQ0NDcnJyjo6ORkZGNTU1f39/"},
    {"saturation", 0.4,
     "XH5S0+jAwam3Dw0cWpJ+z9vV4uPlc1lJR2RPkmml8/Dvjsa8Y5WNgJ5uTyMoocm4rXmDaUSOf110p1N5TmZVblFBfTxJdcB2dUMyVptxTI9ump9mqqrImrl5kMbRa76RybiRjjpAbMW/IBxXnEuQxqvULDVFpdrfqKpnPTGLxMF7xdayNCNblrmZer6Itbq9m7V1qsuUuMVznLrDVlmUJixeeZmnZZOaREBGcC41eXZKaKlmRjx6NydyVZtb"},
    {"saturation", 1.8,
     "HLUAr/9b+IrJDwZMANV7tOrO4eLtvEQAB4sv3if/++3rCv/bAMyoSdIAuQAJRfmu/0BtpQH/yTKa/wCYGog4uzsA/wAsAP8A9xYAAPU4AOJRpboAn5//ZvQACPv/AP9d/7UG/wAAAP//EQH//wD/9oD/DzmDI///vscANQP/5twAqvhURgD4T+lZAP8nqMDLd+oAcf8OufUATtX/OUX/BB7/KLX0AMHfTDpV/wADkoUAAP8ARhn/QQD/AP8A"},
    {"hue", -0.5,
     "fCeWypX5nNm2LDEKryNV4sTU6ejiKGuTdSxffuRN7vb34VZtrTFFhzu1EH1y3nqkYePKheAoS59lKPqbdThkIGePHr+g7zPsBYKtwhR9swxdKR2r8fGmgjPT+HFW6x2NVoLjFOfY7hEfnKURHOY6vP6ZYEkg/XluFRC34v4eHiTTtYrldp8TznjI5j3Ew7awbCzMrFvjLQza3pN75N1KpJYYyHpXuEY1Q00+ELWlDhWEzizSr8gtps4Uxxa4"},
    {"hue", -0.1,
     "hJYn+fKVz5zZChwxI68pyOLE4ujpkyhAQnUsWE3k9+7zVuF3Ma1OsrU7fRBcfN5642HIKDvgh0uf7yj6S3U4jyA6vx6eoe8zrQU/N8IUGrMMq2IdptPx08IzVviyOusd42JW5xSiEe5bEWGlixzmn5n+IF1gbv2yt1gQHoj+02Ae5dqKEz6fps54gOY9sMO+zKws4+Nb2n8Me967Sq7kGHqkV8inNbh6Pz5NtRCDhDYOlNIsLXHIFFvOcccW"},
    {"hue", 0.03,
     "LZYnsvmV2Zy0FgoxI6+WxOLY4+Lpk2MoLHVPzk3k9/HuVt/hMautU7U7fRgQet7G42FipCjgn0t2+ihhOHVUj1wgvx4gM+9YrU4FFMJ4DLOAhasdtKbxZ9MzVsD4Heug49FW5ysUEdXuNBGl5hyk7pn+ICtgbtn9lLcQYh7+udMequWKVROfeM6OPeZ9sLrDb8wseeNblNoMe7TeX0rkIxikV5HINY+4Sj5NtR0QdoQOLNJGYi3IXRTOFsdF"},
    {"hue", 0.3,
     "J1eWldj5y9mcMQoMYSOvzMTi6eLlKJM6Myx15JVN7/furlbhgDGtO4G1MH0QoHrelONh4F4olp9LsfooPTh1II8xXb8eM1XvBa0ONhTCQAyzHaub8aa1M6TT81b4Uh3rVuObTecUtBHupREl5twc/seZYCBE7G79ELeb/h4uHtOpiszlnyATeIPOPT3mw7DBLKzMW63jDNrS3nva5EpwpBhCyFe8rzW4TUU+QbUQDoRlLFHSyC0zzhYUFirH"},
    {"gray", 0,
     "b29v3d3dsrKyDw8Pf39/19fX4+PjX19fWVlZfHx88fHxtLS0hYWFkJCQMTExu7u7ioqKWFhYampqcXFxXV1dWFhYUVFRoaGhUFBQgoKCd3d3l5eXrq6uqampt7e3oKCgubm5VFRUqqqqJCQka2truLi4NDQ0y8vLoqKiPz8/urq6zc3NLy8vq6urpKSkubm5pqamu7u7uLi4srKyX19fMDAwkZGRhoaGQkJCQ0NDcnJyjo6ORkZGNTU1f39/"},
};

// Boxes of CallRng(42) in 640 x 480 pixels: two of RandomResizedCrop, one of RandomCrop(224).
inline constexpr PixelBox kRandomBoxes[] = {
    {194, 87, 411, 317},
    {196, 74, 237, 289},
    {118, 235, 224, 224},
};

// torchvision: to_dtype(float32, scale=True), normalize([0.485], [0.229]) of all levels.
inline constexpr std::string_view kNormalized =
    "vYsHwCtzBsCYWgXABkIEwHMpA8DhEALAT/gAwHi//79Ujv2/L137vwos+b/l+va/wMn0v5uY8r92Z/C/Ujbuvy0F7L8I1Om/46Lnv75x5b+ZQOO/dQ/hv1De3r8rrdy/Bnzav+FK2L+8Gda/mOjTv3O30b9Ohs+/KVXNvwQky7/f8si/u8HGv5aQxL9xX8K/TC7Avyf9vb8CzLu/3pq5v7lpt7+UOLW/bwezv0rWsL8lpa6/AXSsv9xCqr+3Eai/keClv2yvo79HfqG/Ik2fv/4bnb/Z6pq/tLmYv4+Ilr9qV5S/RSaSvyH1j7/8w42/15KLv7Jhib+NMIe/aP+Ev0TOgr8fnYC/9Nd8v6p1eL9gE3S/F7Fvv81Oa7+D7Ga/Oopiv/AnXr+mxVm/XWNVvxMBUb/Jnky/gDxIvzbaQ7/sdz+/oxU7v1mzNr8PUTK/xu4tv3yMKb8yKiW/6ccgv59lHL9VAxi/DKETv8I+D7943Aq/L3oGv+UXAr82a/u+n6byvgvi6b54HeG+5VjYvlGUz76+z8a+Kwu+vpdGtb4Egqy+cb2jvt34mr5KNJK+tm+JviOrgL4gzW+++UNevtK6TL6rMTu+hagpvl4fGL43lga+IRrqvdQHx72H9aO9OeOAvdihO716+uq8iGI9vMZftjsn4bk8LhUjPck5aT0yr5c9f8G6Pc3T3T0NcwA+NPwRPlqFIz6BDjU+qJdGPs8gWD71qWk+HDN7PiFehj61Io8+SOeXPturoD5vcKk+AjWyPpX5uj4pvsM+vILMPk9H1T7jC94+dtDmPgmV7z6dWfg+GI8AP2LxBD+rUwk/9bUNPz8YEj+IehY/0twaPxw/Hz9loSM/rwMoP/llLD9DyDA/jCo1P9aMOT8g7z0/aVFCP7OzRj/9FUs/RnhPP5DaUz/aPFg/I59cP20BYT+3Y2U/AMZpP0oobj+UinI/3ex2PydPez9xsX8/3QmCPwI7hD8nbIY/TJ2IP3HOij+V/4w/ujCPP99hkT8Ek5M/K8SVP1D1lz91Jpo/mVecP76Inj/juaA/COuiPy0cpT9STac/dn6pP5uvqz/A4K0/5RGwPwpDsj8vdLQ/U6W2P3jWuD+dB7s/wji9P+dpvz8Mm8E/MMzDP1X9xT96Lsg/n1/KP8SQzD/pwc4/DfPQPzIk0z9XVdU/fIbXP6G32T/G6Ns/6xnePw9L4D80fOI/Wa3kP37e5j+jD+k/yEDrP+xx7T8Ro+8/NtTxP1sF9D+ANvY/pWf4P8mY+j/uyfw/E/v+PxyWAECurgFAQccCQNPfA0Bm+ARA+BAGQIopB0AdQghAr1oJQEJzCkDUiwtAZ6QMQPm8DUCL1Q5AHe4PQA==";

// numpy: float16 of the numbers whose bits are multiples of 65521 * 17, without NaN.
inline constexpr std::uint64_t kHalvesDigest = 0xFE5A92ABE774E54B;

}  // namespace energon::testing
// clang-format on
